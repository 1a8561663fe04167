use transect_profile_model::{Profile, ShareMethod, WalkChain, WalkFrame, WalkNode};

use super::super::{double, id, int32, text};
use super::function;
use crate::StoreError;
use crate::column::{Column, TableReader, Values};

/// One frame of a chain.
struct Row<'a> {
    chain: u32,
    depth: i32,
    frame: &'a WalkFrame,
}

pub(crate) fn columns(profile: &Profile) -> Vec<Column<'_>> {
    let rows: Vec<Row<'_>> = (0_u32..)
        .zip(&profile.walk.chains)
        .flat_map(|(chain, of)| (0_i32..).zip(&of.frames).map(move |(depth, frame)| Row { chain, depth, frame }))
        .collect();
    let disputed = rows.iter().map(|r| r.frame.disputed.map(super::super::finite)).collect();
    vec![
        id("chain_id", &rows, |r| r.chain),
        int32("depth", &rows, |r| r.depth),
        id("node_id", &rows, |r| r.frame.node),
        text("function", &rows, |r| function(profile, r.frame.node)),
        double("share", &rows, |r| r.frame.share),
        double("share_low", &rows, |r| r.frame.share_low),
        double("share_high", &rows, |r| r.frame.share_high),
        text("method", &rows, |r| r.frame.method.as_str()),
        Column { name: "disputed", values: Values::OptionalDouble(disputed) },
        text("woken_by", &rows, |r| &r.frame.woken_by),
    ]
}

/// Puts each frame into its chain.
pub(crate) fn read(table: &TableReader, nodes: &[WalkNode], chains: &mut [WalkChain]) -> Result<(), StoreError> {
    let ids = table.ids("chain_id", chains.len())?;
    let depths = table.int32("depth")?;
    let mut node = table.ids("node_id", nodes.len())?.into_iter();
    let mut share = table.double("share")?.into_iter();
    let mut share_low = table.double("share_low")?.into_iter();
    let mut share_high = table.double("share_high")?.into_iter();
    let mut method = table.words("method", ShareMethod::parse)?.into_iter();
    let mut disputed = table.optional_double("disputed")?.into_iter();
    let mut woken_by = table.text("woken_by")?.into_iter();
    let mut frames = std::iter::from_fn(|| {
        Some(WalkFrame {
            node: node.next()?,
            share: share.next()?,
            share_low: share_low.next()?,
            share_high: share_high.next()?,
            method: method.next()?,
            disputed: disputed.next()?,
            woken_by: woken_by.next()?,
        })
    });
    for (row, (id, depth)) in ids.into_iter().zip(depths).enumerate() {
        let Some(frame) = frames.next() else { break };
        let chain = &mut chains[id as usize];
        if usize::try_from(depth) != Ok(chain.frames.len()) {
            return Err(table.bad_row(row, "frames of chains out of order"));
        }
        if nodes[frame.node as usize].group != chain.group {
            return Err(table.bad_row(row, format!("node_id {} is of another group than the chain", frame.node)));
        }
        chain.frames.push(frame);
    }
    Ok(())
}
