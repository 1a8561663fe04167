//! The form that the compiler plugin reads (`compiler-plugin/src/model.h`): one record a line, fields separated by tabs.

use crate::{FeatureModel, Ignored, IgnoredWay, Place, SourceRange};

impl FeatureModel {
    /// The flat form. Places that hold for old revisions only are left out where the feature has others.
    pub fn flat(&self) -> String {
        format!("transect-feature-model\t1\t{}\n{}", self.hash(), self.flat_records())
    }

    /// Sixteen hexadecimal digits over the features and their places: what a build depends on. Option texts and
    /// constraints do not change it.
    pub fn hash(&self) -> String {
        // FNV-1a, 64 bits.
        let hash = self
            .flat_records()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        format!("{hash:016x}")
    }

    fn flat_records(&self) -> String {
        let mut out = String::new();
        for feature in &self.features {
            record(&mut out, &["feature", &feature.name]);
        }
        for (number, feature) in self.features.iter().enumerate() {
            let number = number.to_string();
            let any_current = feature.places.iter().any(Place::is_current);
            for place in feature.places.iter().filter(|place| place.is_current() || !any_current) {
                match place {
                    Place::Variable { file, function, variable } => {
                        record(&mut out, &["variable", &number, file, function, variable]);
                    }
                    // Without a file as ever: the hash of a model says whether a build is of it.
                    Place::Member { file, tag, field } if file.is_empty() => {
                        record(&mut out, &["member", &number, tag, field]);
                    }
                    Place::Member { file, tag, field } => record(&mut out, &["member", &number, tag, field, file]),
                    Place::Location { path, range, member, .. } => {
                        let SourceRange { line, column, end_line, end_column } = range;
                        let [line, column, end_line, end_column] =
                            [line, column, end_line, end_column].map(|number| number.to_string());
                        record(&mut out, &["location", &number, path, &line, &column, &end_line, &end_column, member]);
                    }
                }
            }
        }
        for Ignored { way, reason } in &self.ignored {
            match way {
                IgnoredWay::Function { file, function } => {
                    record(&mut out, &["ignore-function", file, function, reason]);
                }
                IgnoredWay::Member { file, tag, field } => {
                    record(&mut out, &["ignore-member", file, tag, field, reason]);
                }
            }
        }
        out
    }
}

fn record(out: &mut String, fields: &[&str]) {
    for (place, field) in fields.iter().enumerate() {
        if place > 0 {
            out.push('\t');
        }
        for character in field.chars() {
            match character {
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\\' => out.push_str("\\\\"),
                other => out.push(other),
            }
        }
    }
    out.push('\n');
}
