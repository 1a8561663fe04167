//! Writes a synthetic profile, for trying other people's readers: `write_synthetic FOLDER [FLOWS THREADS | latency
//! [FUNCTIONS] | walk [NODES] | feature [SLICES]]`.

use std::path::Path;

use transect_analyze::synthetic::{
    feature_packer, image_server, large, large_features, large_latency, large_walk, latency_service, walked_proxy,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let profile =
        match arguments.as_slice() {
            [_] => image_server(),
            [_, latency] if latency == "latency" => latency_service(),
            [_, latency, functions] if latency == "latency" => large_latency(functions.parse()?),
            [_, walk] if walk == "walk" => walked_proxy(),
            [_, walk, nodes] if walk == "walk" => large_walk(nodes.parse()?),
            [_, feature] if feature == "feature" => feature_packer(),
            [_, feature, slices] if feature == "feature" => large_features(slices.parse()?, 4, 12),
            [_, flows, threads] => large(flows.parse()?, threads.parse()?),
            _ => return Err(
                "usage: write_synthetic FOLDER [FLOWS THREADS | latency [FUNCTIONS] | walk [NODES] | feature [SLICES]]"
                    .into(),
            ),
        };
    Ok(transect_profile_store::write(Path::new(&arguments[0]), &profile)?)
}
