//! Writes a synthetic profile, for trying other people's readers: `write_synthetic FOLDER [FLOWS THREADS | latency
//! [FUNCTIONS]]`.

use std::path::Path;

use transect_analyze::synthetic::{image_server, large, large_latency, latency_service};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let profile = match arguments.as_slice() {
        [_] => image_server(),
        [_, latency] if latency == "latency" => latency_service(),
        [_, latency, functions] if latency == "latency" => large_latency(functions.parse()?),
        [_, flows, threads] => large(flows.parse()?, threads.parse()?),
        _ => return Err("usage: write_synthetic FOLDER [FLOWS THREADS | latency [FUNCTIONS]]".into()),
    };
    Ok(transect_profile_store::write(Path::new(&arguments[0]), &profile)?)
}
