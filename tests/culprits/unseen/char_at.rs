// Looks at each character of a text by its number, which goes through the text from its start each time.
#[inline(never)]
fn char_at(text: &str, i: usize) -> char {
    text.chars().nth(i).unwrap() // HERE
}
fn main() {
    let n: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(200000);
    let timing = std::env::var("OWN_CLOCK").is_ok();
    let begun = std::time::Instant::now();
    let text: String = (0..n).map(|i| char::from_u32(97 + ((i * 7919) % 400) as u32).unwrap()).collect();
    let mut vowels = 0;
    let mut spent = std::time::Duration::ZERO;
    for i in 0..n {
        let t = std::time::Instant::now();
        let c = char_at(&text, i);
        if timing { spent += t.elapsed(); }
        if "aeiou".contains(c) { vowels += 1; }
    }
    println!("{}", vowels);
    if timing { eprintln!("own clock: {:.3} of {:.3} s", spent.as_secs_f64(), begun.elapsed().as_secs_f64()); }
}
