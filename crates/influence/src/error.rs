/// Why the influence of features can't be found.
#[derive(Debug, thiserror::Error)]
pub enum InfluenceError {
    /// Nothing of the model reaches the command line.
    #[error("no feature of the model has an option text; give features `option = \"--text\"` (XML: <outputString>)")]
    NothingToDrive,
    /// The constraints exclude everything.
    #[error("the model's constraints allow no configuration at all; check `constraints`, `implies` and `excludes`")]
    NoConfiguration,
    /// The search for configurations takes too long.
    #[error("the model's constraints are too hard to satisfy within {0} steps; simplify them")]
    TooHard(usize),
    /// All configurations are the same.
    #[error("the model allows a single configuration only: there is nothing to compare")]
    OneConfiguration,
    /// The command has no place for options.
    #[error("the command has no {{options}}: put it where the program's options go, as in: gzip {{options}} -k file")]
    NoPlace,
    /// The command is empty.
    #[error("give the command to run after --, with {{options}} where the options go")]
    NoCommand,
    /// A name that is no feature's.
    #[error("the model has no feature `{0}`; its features are: {1}")]
    UnknownFeature(String, String),
    /// A run failed.
    #[error("{}: {reason}", if .options.is_empty() { "without options".to_owned() } else { format!("with the options `{options}`") })]
    Run {
        /// The configuration's options.
        options: String,
        /// What happened.
        reason: String,
    },
    /// Not enough runs succeeded.
    #[error(
        "{succeeded} of {runs} runs succeeded, in {configurations} configurations: too few to compare any{failure}"
    )]
    TooFew {
        /// Runs that ended well.
        succeeded: usize,
        /// All runs.
        runs: usize,
        /// Configurations with a run that ended well.
        configurations: usize,
        /// Why the first run that failed did, or nothing.
        failure: String,
    },
}
