//! Features to be rendered.

use transect_analyze::synthetic::{feature_hostile, feature_listing, feature_packer, large_features};
use transect_analyze::{FeaturesView, Selection, View};
use transect_profile_model::{Meta, Profile, RegionMethod, Timing};
use transect_report::{Content, Rows};

use crate::sample_rows::{content, meta};

fn of(profile: &Profile, view: Option<View>) -> Content {
    let of = Content::new(profile, &Selection { view, ..Selection::default() });
    if view.is_none() {
        return of;
    }
    // Under the header that all views share.
    let collectors = vec!["feature".into()];
    let meta = Meta { collectors, timing: Timing::Count, feature: profile.meta.feature.clone(), ..meta() };
    Content { meta, ..content(of.rows) }
}

/// The thesis' listing, a packer with everything there is, hostile names, many features, none, and overviews.
pub fn contents() -> Vec<(&'static str, Content)> {
    let view = Some(View::Features);
    let mut lossy = feature_listing();
    if let Some(session) = &mut lossy.meta.feature {
        (session.dropped, session.blocked, session.untranslated, session.samples) = (31_000, 4, 700, 9_000);
        (session.methods, session.sample_hz) = (RegionMethod::ALL.to_vec(), 997);
    }
    vec![
        ("features", of(&feature_packer(), view)),
        ("features-listing", of(&feature_listing(), view)),
        ("features-hostile", of(&feature_hostile(), view)),
        ("features-many", of(&large_features(4_000, 6, 60), view)),
        ("overview-features-lossy", of(&lossy, None)),
        ("features-none", content(Rows::Features(Box::<FeaturesView>::default()))),
        ("overview-features", of(&feature_packer(), None)),
        ("overview-features-only", of(&feature_listing(), None)),
    ]
}
