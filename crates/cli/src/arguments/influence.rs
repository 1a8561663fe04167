//! Arguments of `transect influence`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `transect influence`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  transect influence --model gzip.toml -- gzip {options} -c file
  transect influence --model xz.toml --before 'cp data work' -- xz {options} -f work
  transect influence --model m.toml --configurations 60 --html terms.html --stdin input -- prog {options}
  transect influence --model m.toml --format json --output new.json -- ./prog {options}
  transect influence --model gzip.toml --feature level,rsyncable -- gzip {options} -c file
  transect influence --compare old.json new.json

{options} stands where the options of a configuration go. What the program prints is
thrown away; GNU grep and tar notice that and do less: -- sh -c 'grep \"$@\" | cat' sh {options} word file")]
pub struct InfluenceArguments {
    /// Feature model, XML or TOML; its option texts drive the program
    #[arg(short, long, value_name = "FILE", required_unless_present = "compare")]
    pub model: Option<PathBuf>,
    /// Time to explain: the time under each set of features (regions; for programs built with transect-cc), or the
    /// whole run time (wall); auto: regions if the program has them
    #[arg(long, value_enum, value_name = "WHAT", default_value = "auto")]
    pub method: MethodChoice,
    /// Configurations to run; all, if the model has no more
    #[arg(short = 'n', long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub configurations: u32,
    /// How to choose configurations: so that combinations of options occur (covering), with the number of options spread
    /// evenly (distance), or at random (random)
    #[arg(long, value_enum, value_name = "HOW", default_value = "covering")]
    pub sampling: SamplingChoice,
    /// Options that may interact at once
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u8).range(1..=3))]
    pub order: u8,
    /// Only these options vary, with those below them in the model; the others keep their defaults (comma-separated)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub feature: Vec<String>,
    /// Configurations that only test the prediction [default: a fifth, or none if all are run]
    #[arg(long, value_name = "N")]
    pub held_out: Option<u32>,
    /// Values of each numeric option
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u8).range(2..=50))]
    pub levels: u8,
    /// Runs of each configuration
    #[arg(short, long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Seed of random choices
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Shell command before each run, such as one that restores its input; not timed
    #[arg(long, value_name = "COMMAND")]
    pub before: Option<String>,
    /// File for the program's standard input, in each run from the beginning [default: nothing]
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<PathBuf>,
    /// Exit statuses of the program that count as success (comma-separated)
    #[arg(long, value_name = "STATUS", value_delimiter = ',', default_value = "0")]
    pub success: Vec<i32>,
    /// Leave out configurations whose runs fail, instead of ending
    #[arg(long)]
    pub keep_going: bool,
    /// Only print the configurations that would be run
    #[arg(long, conflicts_with = "compare")]
    pub list: bool,
    /// Compare the results of two versions (JSON files) instead of running anything
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"], conflicts_with = "command")]
    pub compare: Option<Vec<PathBuf>>,
    /// Format of the results
    #[arg(long, value_enum, default_value = "text")]
    pub format: InfluenceFormat,
    /// File to write instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a page for the browser as well
    #[arg(long, value_name = "FILE", conflicts_with = "compare")]
    pub html: Option<PathBuf>,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments, with {options} where the options go
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required_unless_present_any = ["compare", "list"], value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What is explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodChoice {
    /// Regions if there are some.
    Auto,
    /// Time under each set of features.
    Regions,
    /// The whole time.
    Wall,
}

/// How configurations are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SamplingChoice {
    /// By combinations.
    Covering,
    /// By the number of options.
    Distance,
    /// By chance.
    Random,
}

/// Formats of `transect influence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InfluenceFormat {
    /// A table for people.
    Text,
    /// One object with the key `influence` (or `comparison`).
    Json,
    /// The terms.
    Csv,
}
