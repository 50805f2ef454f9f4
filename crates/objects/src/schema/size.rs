//! Upper bounds on the sizes of the values of CEL expressions, and what it costs to copy, traverse and create them.

use kube_cel::cel::common::ast::Expr;
use serde_json::Value;

/// Characters of text traversed or created per step (`StringTraversalCostFactor`), and values copied per step.
pub(super) const PER_STEP: u64 = 10;
/// Characters of text copied per step.
const COPIED_PER_STEP: u64 = 1000;
/// The most values and characters that may be created at once, because they are kept in memory.
const MAX_MADE: (u64, u64) = (1_000_000, 10_000_000);

/// An upper bound on the size of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Characters of a text, items of a list, or entries of a map.
    pub length: u64,
    /// Values in it, including itself.
    pub nodes: u64,
    /// Characters of all its texts.
    pub bytes: u64,
}

impl Size {
    /// A number, time or boolean.
    pub const SCALAR: Size = Size { length: 0, nodes: 1, bytes: 0 };
    /// Beyond every limit.
    pub const ENDLESS: Size = Size { length: u64::MAX, nodes: u64::MAX, bytes: u64::MAX };

    /// A text.
    pub fn text(length: u64) -> Size {
        Size { length, nodes: 1, bytes: length }
    }

    /// Returns the larger of each measure.
    pub fn max(self, other: Size) -> Size {
        Size {
            length: self.length.max(other.length),
            nodes: self.nodes.max(other.nodes),
            bytes: self.bytes.max(other.bytes),
        }
    }

    /// Returns the sum of both.
    pub fn and(self, other: Size) -> Size {
        Size {
            length: self.length.saturating_add(other.length),
            nodes: self.nodes.saturating_add(other.nodes),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// Returns a bound on any part of it, of any type.
    pub fn part(self) -> Size {
        Size { length: self.nodes.max(self.bytes), ..self }
    }

    pub fn times(self, count: u64) -> Size {
        let times = |measure: u64| measure.saturating_mul(count);
        Size { length: times(self.length), nodes: times(self.nodes), bytes: times(self.bytes) }
    }

    pub fn half(self) -> Size {
        Size { length: self.length / 2, nodes: self.nodes / 2, bytes: self.bytes / 2 }
    }

    /// Returns what exceeds another size.
    pub fn beyond(self, other: Size) -> Size {
        Size {
            length: self.length.saturating_sub(other.length),
            nodes: self.nodes.saturating_sub(other.nodes),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// Returns the cost of copying it.
    pub fn copied(self) -> u64 {
        (self.nodes / PER_STEP).saturating_add(self.bytes / COPIED_PER_STEP)
    }

    /// Returns the cost of traversing it.
    pub fn traversed(self) -> u64 {
        (self.nodes / PER_STEP).saturating_add(self.bytes / PER_STEP)
    }

    /// Returns the cost of creating it; unlimited if it is too large for memory.
    pub fn made(self) -> u64 {
        let (nodes, bytes) = MAX_MADE;
        if self.nodes > nodes || self.bytes > bytes { u64::MAX } else { self.traversed() }
    }
}

/// The variables in scope of an expression, as far as they bound its value.
pub(super) trait Sizes<'v>: Copy {
    /// Returns an upper bound on the size of an expression's value.
    fn size(self, expression: &Expr) -> Size;

    /// Returns the possible values of an expression, if it is a path into a variable.
    fn values(self, expression: &Expr) -> Option<Vec<&'v Value>>;
}
