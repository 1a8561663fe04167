use transect_feature_model::{FeatureIndex, FeatureModel};

/// A choice for every feature of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// For each feature: `None` if it is not selected, else its value (1 for one that is on or off).
    pub values: Vec<Option<f64>>,
}

impl Configuration {
    /// Value of a feature; `None` if it is not selected.
    pub fn value(&self, feature: FeatureIndex) -> Option<f64> {
        self.values.get(feature).copied().flatten()
    }

    /// The program's arguments, in the order of the model.
    pub fn arguments(&self, model: &FeatureModel) -> Vec<String> {
        let selected = model.features.iter().zip(&self.values).filter(|(_, value)| value.is_some());
        selected.flat_map(|(feature, value)| feature.option.arguments(*value)).collect()
    }

    /// The arguments as a shell would read them; control characters are left out.
    pub fn text(&self, model: &FeatureModel) -> String {
        let arguments = self.arguments(model);
        let text = shlex::try_join(arguments.iter().map(String::as_str)).unwrap_or_else(|_| arguments.join(" "));
        text.chars().filter(|character| !character.is_control()).collect()
    }

    /// Whether it satisfies everything that the model asks: parents, mandatory features, alternatives, implications,
    /// exclusions, domains and constraints.
    pub fn is_valid(&self, model: &FeatureModel) -> bool {
        let on = |at: FeatureIndex| self.value(at).is_some();
        let parent_on = |parent: Option<FeatureIndex>| parent.is_none_or(on);
        let features = model.features.iter().enumerate().all(|(at, feature)| match self.value(at) {
            Some(value) => {
                parent_on(feature.parent)
                    && feature.implies.iter().all(|any| any.iter().any(|other| on(*other)))
                    && !feature.excludes.iter().any(|other| on(*other))
                    && feature.domain().map_or(value == 1.0, |domain| domain.contains(value))
            }
            None => !(feature.mandatory && parent_on(feature.parent)),
        });
        let groups = model.groups.iter().all(|group| {
            let count = group.members.iter().filter(|member| on(**member)).count();
            count <= 1 && (count == 1 || !group.required || !parent_on(group.parent))
        });
        features && groups && model.constraints.iter().all(|constraint| constraint.holds(&|at| self.value(at)))
    }
}
