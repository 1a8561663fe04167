//! The walk in a real browser: chains, call tree, flame graph.

use serde_json::{Value, json};
use transect_analyze::synthetic::{large_walk, walked_proxy};
use transect_report::html::PageReport;

use crate::page::{Page, page};

const EVIL: &str = "</script><img src=x onerror=alert(1)>\u{202e}\u{1b}[31m";

fn report(profile: &transect_profile_model::Profile) -> Value {
    serde_json::to_value(PageReport::new(profile)).unwrap()
}

fn texts(page: &mut Page, selector: &str) -> Vec<String> {
    let script = format!("[...document.querySelectorAll({})].map(e => e.textContent)", json!(selector));
    serde_json::from_value(page.eval(&script)).unwrap()
}

fn tree_names(page: &mut Page) -> Vec<String> {
    texts(page, "#call-tree .walk-name")
}

#[test]
fn browser_shows_the_chain_in_tree_and_flame_graph() {
    let Some(mut page) = page("browser_shows_the_chain_in_tree_and_flame_graph", &report(&walked_proxy())) else {
        return;
    };
    page.assert_quiet();
    assert_eq!(
        texts(&mut page, "h2"),
        [
            "Findings",
            "Where the time goes",
            "Call tree",
            "Flame graph",
            "System calls",
            "What the search did",
            "Losses"
        ]
    );
    assert_eq!(page.eval("document.querySelectorAll('.chain-card').length"), 7);
    assert!(
        page.text(".conclusion").starts_with("Ends in waiting: 31 % of main's time"),
        "{}",
        page.text(".conclusion")
    );
    assert!(page.text(".walk-facts").contains("kernel sampled, system calls exact · found after 1.84 s"));
    let chain = texts(&mut page, "#chain-detail .walk-name");
    assert_eq!(chain.first().map(String::as_str), Some("main"));
    assert_eq!(chain.last().map(String::as_str), Some("schedule_hrtimeout_range_clock"));
    assert_eq!(page.eval("document.querySelectorAll('#chain-detail tr.in-kernel').length"), 3);
    // The chain is open in the tree and marked in both.
    assert_eq!(texts(&mut page, "#call-tree .on-chain .walk-name"), chain);
    assert_eq!(page.eval("document.querySelectorAll('#walk-flame-graph .on-chain').length"), chain.len());
    assert!(tree_names(&mut page).iter().any(|name| name == "Store::release(StoreKey const&)"), "and its neighbours");
    // Another chain.
    page.click(".chain-card:nth-of-type(2)");
    assert!(page.text(".conclusion").contains("wait_transaction_locked"));
    assert!(tree_names(&mut page).contains(&"wait_transaction_locked".to_owned()));
    page.assert_quiet();
}

#[test]
fn browser_walks_the_tree_by_keyboard() {
    let Some(mut page) = page("browser_walks_the_tree_by_keyboard", &report(&walked_proxy())) else { return };
    let focused = |page: &mut Page| page.eval("document.activeElement.querySelector('.walk-name')?.textContent");
    page.eval("document.querySelector('#call-tree [tabindex=\"0\"]').focus()");
    assert_eq!(focused(&mut page), "main");
    page.browser.press("ArrowDown", 40);
    page.browser.press("ArrowDown", 40);
    assert_eq!(focused(&mut page), "Store::release(StoreKey const&)");
    let rows = tree_names(&mut page).len();
    page.browser.press("ArrowRight", 39);
    assert_eq!(tree_names(&mut page).len(), rows + 1, "opened");
    page.browser.press("ArrowRight", 39);
    assert_eq!(focused(&mut page), "unlink");
    page.browser.press("ArrowLeft", 37);
    page.browser.press("ArrowLeft", 37);
    assert_eq!(tree_names(&mut page).len(), rows, "closed again");
    page.browser.press("Enter", 13);
    assert_eq!(page.text("#walk-panel h3"), "Store::release(StoreKey const&)");
}

#[test]
fn browser_switches_widths_zooms_and_finds_in_the_flame_graph() {
    let Some(mut page) = page("browser_switches_widths", &report(&walked_proxy())) else { return };
    let width = |page: &mut Page, name: &str| -> f64 {
        let script = format!(
            "(e => e === undefined ? 0 : e.getBoundingClientRect().width / document.getElementById('walk-flame-graph').getBoundingClientRect().width)\
             ([...document.querySelectorAll('#walk-flame-graph .flame-box')].find(e => e.textContent.startsWith({})))",
            json!(name)
        );
        page.eval(&script).as_f64().unwrap()
    };
    let near = |found: f64, share: f64| assert!((found - share).abs() < 0.01, "{found} {share}");
    near(width(&mut page, "Comm::select"), 0.311);
    page.click("input[name=walk-weight][value=on]");
    near(width(&mut page, "Comm::select"), 0.06 / 2.9);
    page.click("input[name=walk-weight][value=off]");
    near(width(&mut page, "Comm::select"), 3.05 / 7.1);
    // Zoom and back.
    page.eval("[...document.querySelectorAll('#walk-flame-graph .flame-box')].find(e => e.textContent.startsWith('Comm::select')).click()");
    near(width(&mut page, "Comm::select"), 1.0);
    page.browser.press("Escape", 27);
    near(width(&mut page, "Comm::select"), 3.05 / 7.1);
    page.eval(
        "(f => { f.value = 'EXT4_'; f.dispatchEvent(new Event('input')); })(document.getElementById('walk-search'))",
    );
    let found = page.eval("document.querySelectorAll('#walk-flame-graph .found').length").as_i64().unwrap();
    assert!(found >= 3, "{found}");
    assert!(page.text(".walk-found").contains(" found, "), "{}", page.text(".walk-found"));
    page.assert_quiet();
}

#[test]
fn browser_copes_with_twenty_thousand_nodes() {
    let Some(mut page) = page("browser_copes_with_twenty_thousand_nodes", &report(&large_walk(20_000))) else { return };
    page.assert_quiet();
    let elements = page.eval("document.querySelectorAll('*').length").as_i64().unwrap();
    assert!(elements < 12_000, "{elements}");
    for _ in 0..30 {
        page.eval("document.querySelector('#call-tree [aria-expanded=false]')?.click()");
    }
    assert!(page.text(".tree-more").contains("smaller"));
    page.assert_quiet();
}

#[test]
fn browser_shows_hostile_names_of_a_walk_as_text() {
    let mut profile = walked_proxy();
    profile.walk.nodes.iter_mut().for_each(|node| {
        node.function = format!("{}{EVIL}", node.function);
        node.file.push_str(EVIL);
    });
    profile.walk.groups.iter_mut().for_each(|group| group.thread_group.push_str(EVIL));
    profile.walk.system_calls.iter_mut().for_each(|call| call.name.push_str(EVIL));
    profile.walk.steps.iter_mut().for_each(|step| step.note.push_str(EVIL));
    profile.walk.chains.iter_mut().for_each(|chain| {
        chain.waiting_for.push_str(EVIL);
        chain.woken_by.push_str(EVIL);
    });
    let Some(mut page) = page("browser_shows_hostile_names_of_a_walk_as_text", &report(&profile)) else { return };
    page.assert_quiet();
    assert_eq!(page.eval("document.querySelectorAll('img').length"), 0);
    let text = page.eval("document.body.textContent");
    let main = page.eval("document.querySelector('main').textContent");
    assert!(text.as_str().unwrap().contains("onerror"));
    assert!(!main.as_str().unwrap().contains(['\u{202e}', '\u{1b}']), "shown for what they are");
    assert!(main.as_str().unwrap().contains("\\u{202e}"));
}

#[test]
fn browser_says_when_a_walk_saw_nothing() {
    let mut profile = walked_proxy();
    profile.walk = Default::default();
    let Some(mut page) = page("browser_says_when_a_walk_saw_nothing", &report(&profile)) else { return };
    page.assert_quiet();
    assert!(page.text("#walk").contains("No chain: nothing was observed."));
    assert_eq!(page.eval("document.getElementById('call-tree')"), Value::Null);
}
