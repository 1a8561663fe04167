//! A probe at an address that somebody names.

use iced_x86::{Decoder, DecoderOptions, Instruction};
use transect_binary_info::Object;

use crate::{
    Event, ExitSupport, Function, FunctionTable, PlanOptions, ProviderKind, Refusal, Site, control_flow, plan, usdt,
};

/// Why no probe can be at an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointError {
    /// The object has no code there.
    #[error("{vaddr:#x} is not in the code of the object")]
    NotCode {
        /// The address.
        vaddr: u64,
    },
    /// An instruction begins before the address and ends after it.
    #[error("{vaddr:#x} is in the middle of an instruction of {function}, which begins at {start:#x}")]
    MiddleOfInstruction {
        /// The address.
        vaddr: u64,
        /// The function.
        function: String,
        /// Where the instruction begins.
        start: u64,
    },
    /// There is no room for a jump.
    #[error("no probe can be at {vaddr:#x} in {function}: {reason}")]
    Refused {
        /// The address.
        vaddr: u64,
        /// The function.
        function: String,
        /// Why.
        reason: Refusal,
    },
}

/// Plans the site at `vaddr`: a function's entry if one is there, else a point inside of a function, where nothing is
/// known of the stack but that its red zone may be in use.
///
/// # Errors
/// [`PointError`].
pub fn plan_address(object: &Object, vaddr: u64) -> Result<(Function, Site), PointError> {
    let mut table = FunctionTable::of(object);
    if !table.code().iter().any(|range| range.contains(&vaddr)) {
        return Err(PointError::NotCode { vaddr });
    }
    if table.at(vaddr).is_some() {
        return entry(object, vaddr);
    }
    let index = table.containing_or_add(vaddr);
    let function = table.functions()[index as usize].clone();
    // A cold part has its own start to decode from.
    let from = table.decodable_before(vaddr).unwrap_or(function.vaddr);
    if let Some(start) = instruction_over(object, from, vaddr) {
        return Err(PointError::MiddleOfInstruction { vaddr, function: function.name, start });
    }
    let refused = |reason| PointError::Refused { vaddr, function: function.name.clone(), reason };
    let window = usdt::point_window(object, &table, vaddr).map_err(refused)?;
    let site = Site {
        function: index,
        vaddr,
        provider: ProviderKind::Entry,
        event: Event::Point,
        exit: ExitSupport::NotEntry,
        red_zone: true,
        window,
        name: String::new(),
        usdt: None,
    };
    match control_flow::examine(object, &table, std::slice::from_ref(&site))[..] {
        [Some(reason)] => Err(refused(reason)),
        _ => Ok((function, site)),
    }
}

fn entry(object: &Object, vaddr: u64) -> Result<(Function, Site), PointError> {
    let only = |f: &Function| f.vaddr == vaddr;
    let mut plan = plan(object, &PlanOptions { wanted: Some(&only), ..PlanOptions::default() });
    let place = plan
        .sites
        .iter()
        .position(|site| site.event == Event::Entry && plan.functions[site.function as usize].vaddr == vaddr);
    if let Some(place) = place {
        let site = plan.sites.swap_remove(place);
        return Ok((plan.functions.swap_remove(site.function as usize), site));
    }
    let reason = plan.refused.first().map_or(Refusal::NotCode, |refused| refused.reason);
    let function = plan.functions.into_iter().find(only).unwrap_or_default().name;
    Err(PointError::Refused { vaddr, function, reason })
}

/// The start of the instruction that `vaddr` is inside of.
fn instruction_over(object: &Object, from: u64, vaddr: u64) -> Option<u64> {
    let bytes = object.bytes_at(from)?;
    let mut decoder = Decoder::with_ip(64, bytes, from, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.ip() < vaddr && decoder.can_decode() {
        decoder.decode_out(&mut instruction);
    }
    (decoder.ip() > vaddr).then_some(instruction.ip())
}
