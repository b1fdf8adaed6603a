//! Work that somebody may call off because he wants the volume more.

use tokio::sync::watch;

/// Calls work off.
#[derive(Debug)]
pub struct CallOff(watch::Sender<bool>);

/// Tells work that it is called off.
#[derive(Debug, Clone)]
pub struct CalledOff(watch::Receiver<bool>);

impl Default for CallOff {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl CallOff {
    pub fn raise(&self) {
        self.0.send_replace(true);
    }

    #[must_use]
    pub fn seen(&self) -> CalledOff {
        CalledOff(self.0.subscribe())
    }
}

impl CalledOff {
    /// Work that nobody can call off.
    #[must_use]
    pub fn never() -> Self {
        CallOff::default().seen()
    }

    #[must_use]
    pub fn is_raised(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once it is called off; never, if whoever could do it is gone.
    pub async fn raised(&mut self) {
        if self.0.wait_for(|off| *off).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn work_is_called_off_once_and_for_all_who_look() {
        let call_off = CallOff::default();
        let mut seen = call_off.seen();
        assert!(!seen.is_raised() && seen.raised().now_or_never().is_none());
        call_off.raise();
        assert!(seen.is_raised() && call_off.seen().raised().now_or_never().is_some());
        assert!(CalledOff::never().raised().now_or_never().is_none());
    }
}
