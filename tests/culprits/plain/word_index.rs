//! Numbers the words of a text. It looks for each word among all others from the start.
use std::time::Instant;

struct Index {
    words: Vec<String>,
    counts: Vec<u64>,
}

impl Index {
    #[inline(never)]
    fn find_word(&self, word: &str) -> Option<usize> {
        self.words.iter().position(|known| known == word) // culprit
    }

    fn add(&mut self, word: &str, seconds: &mut f64) {
        let start = Instant::now();
        let found = self.find_word(word);
        *seconds += start.elapsed().as_secs_f64();
        match found {
            Some(at) => self.counts[at] += 1,
            None => {
                self.words.push(word.to_string());
                self.counts.push(1);
            }
        }
    }
}

/// Lower-case words of eight letters, of which a few thousand differ.
fn word(number: u64) -> String {
    let mut state = (number.wrapping_mul(0x9e3779b97f4a7c15) >> 40) % 4000;
    (0..8)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (b'a' + (state >> 60) as u8) as char
        })
        .collect()
}

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200_000);
    let begin = Instant::now();
    let mut index = Index { words: Vec::new(), counts: Vec::new() };
    let mut finding = 0.0;
    for number in 0..count {
        index.add(&word(number), &mut finding);
    }
    let most = index.counts.iter().max().unwrap();
    let wall = begin.elapsed().as_secs_f64();
    println!("{{\"culprit_s\": {finding:.4}, \"wall_s\": {wall:.4}, \"result\": {most}}}");
}
