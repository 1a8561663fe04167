//! What tests of several crates share. `tests/harness/` is the same for the runners in Python; both judge alike.

mod cases;
mod machine;
mod made;
mod size;

pub use cases::Cases;
pub use machine::{Disturbance, Watch, judged};
pub use made::made_once;
pub use size::{all_suites, cases, sized};
