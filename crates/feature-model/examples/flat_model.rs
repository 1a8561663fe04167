//! Prints the flat form of a model, as the compiler plugin gets it.
fn main() -> std::process::ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: flat_model MODEL");
        return 2.into();
    };
    match transect_feature_model::read(path.as_ref()) {
        Ok(model) => {
            print!("{}", model.flat());
            0.into()
        }
        Err(error) => {
            eprintln!("{error}");
            1.into()
        }
    }
}
