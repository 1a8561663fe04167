/// Lines and columns of a declaration, both ends inclusive, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceRange {
    /// First line.
    pub line: u32,
    /// First column.
    pub column: u32,
    /// Last line.
    pub end_line: u32,
    /// Last column.
    pub end_column: u32,
}

/// Where the source of the program holds a feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A variable or parameter by name.
    Variable {
        /// Source file, compared by path suffix; empty: any.
        file: String,
        /// Function of a local variable or parameter; empty: any, or a global.
        function: String,
        /// The variable.
        variable: String,
    },
    /// A member of a structure or class by name.
    Member {
        /// Source file that declares the structure, or includes the header that does, compared by path suffix; empty: any.
        file: String,
        /// Tag or typedef.
        tag: String,
        /// The member.
        field: String,
    },
    /// A range of the source, as VaRA's models have it. Lines go stale: they are a hint beside the name in them.
    Location {
        /// Source file, compared by path suffix.
        path: String,
        /// The range.
        range: SourceRange,
        /// `Class::member`, or empty.
        member: String,
        /// First revision of the program for which it holds; empty if not said.
        introduced: String,
        /// First revision for which it no longer holds; empty if it still does.
        removed: String,
        /// Whether the model calls it necessary (rather than inessential).
        necessary: bool,
    },
}

/// A way of data that the analysis leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// What cuts the way.
    pub way: IgnoredWay,
    /// Why, for whoever reads the profile; empty if not said.
    pub reason: String,
}

/// Where a way of data is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoredWay {
    /// What a function returns and writes carries no feature.
    Function {
        /// Source file, compared by path suffix.
        file: String,
        /// The function.
        function: String,
    },
    /// What is read from a member carries no feature.
    Member {
        /// Source file that declares the structure, or includes the header that does; empty: any.
        file: String,
        /// Tag or typedef.
        tag: String,
        /// The member.
        field: String,
    },
}

impl Place {
    /// Whether it holds for the newest revision that the model knows.
    pub fn is_current(&self) -> bool {
        !matches!(self, Self::Location { removed, .. } if !removed.is_empty())
    }
}
