//! Somebody who calls again and again, over a new connection each time or over one that is kept.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::client::{Answer, CallError, Connection, call_afresh};
use super::messages::Call;

/// How long one call may take.
///
/// Ten seconds: the guard waits as long for an absent plugin; half would call that silence.
const CALL_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Connect, call once, close: kubelet.
    Fresh,
    Kept,
}

pub struct Caller<'a> {
    socket: &'a Path,
    mode: Mode,
    kept: Option<Connection>,
    pub wrong: Wrong,
}

/// Answers that were not the expected one.
#[derive(Default, Serialize)]
pub struct Wrong {
    pub count: usize,
    pub first: Option<String>,
}

impl<'a> Caller<'a> {
    pub fn new(socket: &'a Path, mode: Mode) -> Self {
        Self { socket, mode, kept: None, wrong: Wrong::default() }
    }

    /// Calls; an answer that is not the expected one is counted.
    pub async fn call(&mut self, call: &Call) {
        let answer = tokio::time::timeout(CALL_LIMIT, self.answer(call)).await;
        self.wrong.judge(call, answer.unwrap_or(Err(CallError::Silent)));
    }

    /// Calls, and gives the call up after `patience`.
    pub async fn call_and_give_up(&mut self, call: &Call, patience: Duration) {
        let connection = match self.kept.take() {
            Some(connection) => connection,
            None => match Connection::open(self.socket).await {
                Ok(connection) => connection,
                Err(error) => return self.wrong.judge(call, Err(error)),
            },
        };
        let connection = self.kept.insert(connection);
        if let Ok(answer) = tokio::time::timeout(patience, connection.call(call)).await {
            self.wrong.judge(call, answer);
        }
    }

    pub async fn close(self) -> Wrong {
        if let Some(connection) = self.kept {
            connection.close().await;
        }
        self.wrong
    }

    async fn answer(&mut self, call: &Call) -> Result<Answer, CallError> {
        if self.mode == Mode::Fresh {
            return call_afresh(self.socket, call).await;
        }
        let mut connection = match self.kept.take() {
            Some(connection) => connection,
            None => Connection::open(self.socket).await?,
        };
        let answer = connection.call(call).await?;
        // Only a connection that answered is kept.
        self.kept = Some(connection);
        Ok(answer)
    }
}

impl Wrong {
    pub fn add(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.take().or(other.first);
    }

    fn judge(&mut self, call: &Call, answer: Result<Answer, CallError>) {
        if answer.as_ref().is_ok_and(|answer| *answer == call.expected) {
            return;
        }
        self.count += 1;
        self.first.get_or_insert_with(|| format!("{}: {answer:?}", call.path));
    }
}
