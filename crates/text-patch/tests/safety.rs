//! The long safety run's program with some ten million toggles, or as many as `TRANSECT_TOGGLES` says.

#[path = "../examples/safety.rs"]
mod safety;

fn main() {
    safety::main();
}
