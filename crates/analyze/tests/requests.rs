//! Predicted savings of servers that start a thread for each request.

use transect_analyze::synthetic::{Do, Program, Script};
use transect_analyze::{CriticalityView, Selection, criticality};
use transect_profile_model::Profile;

const CLIENTS: usize = 6;
const ROUNDS: usize = 40;

/// Main accepts requests and starts a thread for each, which sleeps, computes and answers. All come at the start, so that later ones
/// are there already when main looks for them.
fn served(sleep_us: f64, render_us: f64, cpus: usize) -> Profile {
    let requests = CLIENTS * ROUNDS;
    let accept = CLIENTS;
    let client = |number: usize| {
        let round = [("ask", Do::Run(20.0)), ("ask", Do::Put(accept, requests)), ("ask", Do::Take(number))];
        Script { name: "client".into(), steps: (0..ROUNDS).flat_map(|_| round).collect(), ..Script::default() }
    };
    let server = |request: usize| {
        // No two alike.
        let part = 0.6 + (request * 7 % 17) as f64 / 20.0;
        let steps = vec![
            ("look_up", Do::Sleep(sleep_us * part)),
            ("render", Do::Run(render_us * part)),
            ("answer", Do::Put(request % CLIENTS, requests)),
        ];
        Script { name: "server".into(), steps, ..Script::default() }
    };
    let clients = (1..=CLIENTS).map(|id| ("main", Do::Spawn(id)));
    let starts = (0..requests).flat_map(|request| {
        [("main", Do::Take(accept)), ("main", Do::Run(120.0)), ("main", Do::Spawn(1 + CLIENTS + request))]
    });
    let joined = (1..=CLIENTS).map(|id| ("main", Do::Join(id)));
    let main =
        Script { name: "main".into(), steps: clients.chain(starts).chain(joined).collect(), ..Script::default() };
    let threads = [main].into_iter().chain((0..CLIENTS).map(client)).chain((0..requests).map(server));
    Program { cpus, threads: threads.collect() }.run().profile
}

fn view(profile: &Profile) -> CriticalityView {
    criticality(profile, &Selection::default()).unwrap()
}

fn is_near(view: &CriticalityView, path: &str, truth: f64) {
    let rows = view.what_if.iter().filter(|row| row.path == path && row.speedup.is_infinite());
    let row = rows.max_by(|a, b| a.saving.total_cmp(&b.saving)).unwrap();
    assert!((row.saving - truth).abs() < 0.1, "{path}: {} of {truth}", row.saving);
}

#[test]
fn a_request_is_there_before_the_thread_that_is_made_for_it() {
    for cpus in [8, 2] {
        let (sleep, render) = (1_500.0, 400.0);
        let profile = served(sleep, render, cpus);
        let truth = |changed: Profile| 1.0 - changed.meta.wall_ns as f64 / profile.meta.wall_ns as f64;
        let view = view(&profile);
        is_near(&view, "look_up", truth(served(0.0, render, cpus)));
        is_near(&view, "render", truth(served(sleep, 0.0, cpus)));
    }
}
