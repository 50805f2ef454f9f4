//! The generated connection of each method to both protocols (`build/adapters.rs`).

use std::sync::Arc;

use crate::contract::*;
use crate::service::Service;
use crate::{grpc, methods, rest};

include!(concat!(env!("OUT_DIR"), "/adapters.rs"));
