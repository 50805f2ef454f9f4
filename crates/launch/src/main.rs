//! launch
fn main() {}
