//! Contexts and scopes, which operations run on.

use crate::context::Inner;
use crate::{Context, Device, Error, ErrorKind, Host, Memory, OnDevice, Result, Scope};
use gsplat_c_sys as sys;
use std::ffi::c_void;
use std::fmt::Display;
use std::ptr;
use std::sync::Arc;

/// One call: the function that the user called, its context, stream and scope.
pub struct Start<'q> {
    pub(crate) name: &'static str,
    pub(crate) inner: &'q Arc<Inner>,
    pub(crate) stream: *mut c_void,
    pub(crate) scope: Option<u64>,
}

pub trait Begin {
    fn begin(&self, name: &'static str) -> Result<Start<'_>>;
}

/// What operations run on: a CPU [`Context`], where they are done when the call returns, or a
/// [`Scope`] of a CUDA context, where they are queued.
pub trait Queue: Begin {
    /// Where its operations have their tensors.
    type Memory: Memory;
}

impl Begin for Context {
    fn begin(&self, name: &'static str) -> Result<Start<'_>> {
        let start = Start { name, inner: &self.inner, stream: ptr::null_mut(), scope: None };
        match self.inner.device {
            Device::Cpu => Ok(start),
            device => Err(start.error(
                ErrorKind::Device,
                format!("queue is a context of {device:?}, expected a scope: Context::scope"),
            )),
        }
    }
}

impl Queue for Context {
    type Memory = Host;
}

impl Begin for Scope<'_, '_> {
    fn begin(&self, name: &'static str) -> Result<Start<'_>> {
        let (inner, stream) = (&self.context().inner, self.stream().as_raw());
        if let Some(primary) = &inner.primary {
            // SAFETY: the promise of `Stream::from_raw`.
            unsafe { primary.refuse_capture(name, stream)? };
        }
        Ok(Start { name, inner, stream, scope: Some(self.id) })
    }
}

impl<'scope> Queue for Scope<'scope, '_> {
    type Memory = OnDevice<'scope>;
}

impl Start<'_> {
    /// Calls the library, with the context and the stream.
    pub(crate) fn call(
        &self,
        function: impl FnOnce(&sys::Api, *mut sys::gsc_context, *mut c_void) -> sys::gsc_status,
    ) -> Result<()> {
        self.inner.call(self.name, |api, context| function(api, context, self.stream))
    }

    pub(crate) fn error(&self, kind: ErrorKind, problem: impl Display) -> Error {
        Error::new(kind, format!("{}: {problem}", self.name))
    }

    /// Fails if the state belongs to another scope that may still be writing it.
    pub(crate) fn refuse_unfinished(&self, made_in: Option<u64>) -> Result<()> {
        let open = |id: &u64| self.inner.scopes().open.contains(id);
        match made_in.filter(|_| made_in != self.scope).filter(open) {
            None => Ok(()),
            Some(_) => {
                Err(self.error(ErrorKind::State, "saved belongs to a scope that has not ended"))
            }
        }
    }
}
