//! Contexts and scopes, which operations run on.

use crate::context::Inner;
use crate::{Context, Device, Error, ErrorKind, Host, Memory, OnDevice, Result, Scope};
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

/// The context, stream and scope of a call.
pub struct Start<'q> {
    pub(crate) inner: &'q Arc<Inner>,
    pub(crate) stream: *mut c_void,
    pub(crate) scope: Option<u64>,
}

pub trait Begin {
    fn begin(&self) -> Result<Start<'_>>;
}

/// What operations run on: a CPU [`Context`], where they are done when the call returns, or a
/// [`Scope`] of a CUDA context, where they are queued.
pub trait Queue: Begin {
    /// Where its operations have their tensors.
    type Memory: Memory;
}

impl Begin for Context {
    fn begin(&self) -> Result<Start<'_>> {
        match self.inner.device {
            Device::Cpu => Ok(Start { inner: &self.inner, stream: ptr::null_mut(), scope: None }),
            Device::Cuda(_) => Err(Error::new(
                ErrorKind::Device,
                "operations of a CUDA context run in a scope: Context::scope",
            )),
        }
    }
}

impl Queue for Context {
    type Memory = Host;
}

impl Begin for Scope<'_, '_> {
    fn begin(&self) -> Result<Start<'_>> {
        let inner = &self.context().inner;
        if let Some(primary) = &inner.primary {
            // SAFETY: the promise of `Stream::from_raw`.
            unsafe { primary.refuse_capture(self.stream().as_raw())? };
        }
        Ok(Start { inner, stream: self.stream().as_raw(), scope: Some(self.id) })
    }
}

impl<'scope> Queue for Scope<'scope, '_> {
    type Memory = OnDevice<'scope>;
}

impl Start<'_> {
    /// Fails if the state belongs to another scope that may still be writing it.
    pub(crate) fn refuse_unfinished(&self, made_in: Option<u64>) -> Result<()> {
        let open = |id: &u64| self.inner.scopes().open.contains(id);
        match made_in.filter(|_| made_in != self.scope).filter(open) {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::State,
                "Scene::backward: saved belongs to a scope that has not ended",
            )),
        }
    }
}
