//! All providers' sites, held against the whole object's control flow.

use transect_binary_info::Object;

use crate::{
    Entry, Event, Fentry, Function, FunctionTable, InstrumentFunctions, PatchableEntry, Plan, Proposal, Provider,
    ProviderKind, Refusal, Refused, Region, Site, Usdt, Xray, control_flow,
};

/// Says of a function whether its sites are asked for.
pub type Wanted<'a> = dyn Fn(&Function) -> bool + Send + Sync + 'a;

/// What to plan.
pub struct PlanOptions<'a> {
    /// Providers to ask; all by default.
    pub providers: Vec<ProviderKind>,
    /// Functions whose sites are asked for; all if `None`. Planning few functions is quicker than planning all.
    pub wanted: Option<&'a Wanted<'a>>,
}

impl Default for PlanOptions<'_> {
    fn default() -> Self {
        Self { providers: ProviderKind::ALL.to_vec(), wanted: None }
    }
}

impl std::fmt::Debug for PlanOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanOptions").field("providers", &self.providers).finish_non_exhaustive()
    }
}

impl ProviderKind {
    /// All providers but [`Self::Region`], whose sites have USDT notes too, in the order in which they are asked: what a
    /// compiler prepared goes before what must be displaced.
    pub const ALL: [Self; 6] =
        [Self::PatchableEntry, Self::Fentry, Self::Xray, Self::InstrumentFunctions, Self::Usdt, Self::Entry];

    /// The provider.
    pub fn provider(self) -> &'static dyn Provider {
        match self {
            Self::Entry => &Entry,
            Self::PatchableEntry => &PatchableEntry,
            Self::Fentry => &Fentry,
            Self::Xray => &Xray,
            Self::InstrumentFunctions => &InstrumentFunctions,
            Self::Usdt => &Usdt,
            Self::Region => &Region,
        }
    }
}

/// Plans the sites of `object`.
///
/// [`Plan::functions`] has all functions of the object, so that names can be looked up; sites and refusals are of the
/// wanted ones.
///
/// A window is refused if any direct branch of the object, jump table, relocated pointer, landing pad or known start
/// of code leads into it. What remains unseen is an indirect jump to an address that the code computes otherwise: its
/// targets are taken to lie elsewhere, since the code that computes them comes first and is longer than a window.
pub fn plan(object: &Object, options: &PlanOptions<'_>) -> Plan {
    plan_in(object, FunctionTable::of(object), options)
}

/// The same for an object whose functions are known already.
pub fn plan_in(object: &Object, mut functions: FunctionTable, options: &PlanOptions<'_>) -> Plan {
    functions.choose(options.wanted);
    let mut all = Proposal::default();
    let kinds = ProviderKind::ALL.into_iter().chain([ProviderKind::Region]);
    for kind in kinds.filter(|kind| options.providers.contains(kind)) {
        let mut proposal = kind.provider().sites(object, &mut functions);
        all.sites.append(&mut proposal.sites);
        all.refused.append(&mut proposal.refused);
    }
    let points = separate(&mut all);
    let verdicts = control_flow::examine(object, &functions, &all.sites);
    let mut verdicts = verdicts.into_iter();
    let Proposal { sites, mut refused } = all;
    let mut kept = Vec::with_capacity(sites.len());
    for site in sites {
        match verdicts.next().flatten() {
            None => kept.push(site),
            Some(reason) => {
                // What can't be the entry's window may do for the point alone.
                let point = points.iter().find(|point| site.usdt.is_some() && point.vaddr == site.vaddr);
                if let Some(point) = point
                    && control_flow::examine(object, &functions, std::slice::from_ref(point)) == [None]
                {
                    kept.push(point.clone());
                    refused.push(Refused { name: String::new(), ..refuse(site, reason) });
                    continue;
                }
                refused.push(refuse(site, reason));
            }
        }
    }
    let (functions, places) = functions.finish();
    for site in &mut kept {
        site.function = places[site.function as usize];
    }
    for one in &mut refused {
        one.function = places[one.function as usize];
    }
    refused.sort_by_key(|one| one.vaddr);
    Plan { functions, sites: kept, refused }
}

fn refuse(site: Site, reason: Refusal) -> Refused {
    let Site { function, vaddr, provider, name, .. } = site;
    Refused { function, vaddr, provider, reason, name }
}

/// Sorts the sites by address, and where two would occupy the same bytes keeps the one that can't be had elsewhere. A
/// point that is a function's first instruction is passed whenever the function is entered: the entry takes its name,
/// and such points are returned.
fn separate(all: &mut Proposal) -> Vec<Site> {
    let rank = |site: &Site| match (site.provider, site.event) {
        // Another function's entry may be displaced no less; points and prepared sleds are where they are.
        (ProviderKind::Entry, _) => 2,
        (ProviderKind::Usdt, Event::Point) => 1,
        _ => 0,
    };
    all.sites.sort_by_key(|site| (site.vaddr, rank(site)));
    let mut kept: Vec<Site> = Vec::with_capacity(all.sites.len());
    let mut points = Vec::new();
    for mut site in all.sites.drain(..) {
        let Some(last) = kept.last().filter(|last| last.range().end > site.vaddr) else {
            kept.push(site);
            continue;
        };
        let is_entry = site.provider == ProviderKind::Entry && site.vaddr == last.vaddr;
        if is_entry && last.provider == ProviderKind::Usdt && last.event == Event::Point {
            (site.name, site.usdt) = (last.name.clone(), last.usdt.clone());
            points.extend(kept.pop());
            kept.push(site);
            continue;
        }
        if rank(last) <= rank(&site) {
            all.refused.push(refuse(site, Refusal::Overlap));
        } else if let Some(lost) = kept.pop() {
            all.refused.push(refuse(lost, Refusal::Overlap));
            kept.push(site);
        }
    }
    all.sites = kept;
    points
}
