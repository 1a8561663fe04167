//! The long safety run's program with some ten million toggles, or as many as `TRANSECT_TOGGLES` says.

#[path = "../examples/safety.rs"]
mod safety;

fn main() {
    let cases = transect_testkit::Cases::asked_for();
    if !cases.listed(["no_instruction_is_mixed"]) && cases.chosen("no_instruction_is_mixed") {
        safety::main();
    }
}
