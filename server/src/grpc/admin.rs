//! `dex.AdminService`: messages to `core::node` and back (HA-87, HA-88, HA-112, HA-124).
//!
//! The order of the checks is credential, arguments, precondition (D-20): the credential is looked at before a request
//! comes here, the arguments here, the precondition in the core.

use std::sync::Arc;

use dexzd_core::engine::limits::NAME_BYTES;
use dexzd_core::ids::{Epoch, Name};
use dexzd_core::node::{
    ActiveProcess, AdminAnswer, AdminCode, AdminError, AdminReason, AdminRequest, StepDownOutcome,
};
use dexzd_proto as proto;
use proto::LeaseHolder;
use proto::admin_service_server::AdminService;
use tonic::{Code, Request, Response, Status};

use super::Backend;
use super::status::{invalid, pass};
use crate::connections::ConnectionInfo;
use crate::convert::Invalid;

/// The service of operators.
pub(super) struct Admin<B> {
    backend: Arc<B>,
}

impl<B: Backend> Admin<B> {
    pub(super) const fn new(backend: Arc<B>) -> Self {
        Self { backend }
    }
}

#[tonic::async_trait]
impl<B: Backend> AdminService for Admin<B> {
    async fn describe(
        &self,
        request: Request<proto::DescribeNodeRequest>,
    ) -> Result<Response<proto::NodeDescription>, Status> {
        let opened_in = ConnectionInfo::of(&request).opened_in;
        let answer = self.backend.admin(opened_in, AdminRequest::Describe).await;
        let answer = answer.map_err(|error| refused(error, None))?;
        // "This process serves" is a statement about the lease: it leaves like any other (D-17, D-47).
        pass(&*self.backend, opened_in).await?;
        described(answer).map(Response::new)
    }

    async fn step_down(
        &self,
        request: Request<proto::StepDownRequest>,
    ) -> Result<Response<proto::StepDownResponse>, Status> {
        let connection = ConnectionInfo::of(&request);
        let expected = Expected::read(request.into_inner()).map_err(invalid)?;
        // The release makes this process a standby, which closes connections: not this one (D-16).
        let _carried = connection.carry_step_down();
        let request = AdminRequest::StepDown { node_id: expected.node_id.clone(), epoch: expected.epoch };
        let answer = self.backend.admin(connection.opened_in, request).await;
        answer.map_err(|error| refused(error, Some(&expected))).and_then(stepped_down).map(Response::new)
    }
}

/// The precondition of a step down (HA-88).
struct Expected {
    node_id: Name,
    epoch: Epoch,
}

impl Expected {
    fn read(request: proto::StepDownRequest) -> Result<Self, Invalid> {
        let proto::StepDownRequest { expected_node_id, expected_node_epoch } = request;
        let rule = if expected_node_id.is_empty() {
            "is missing: name the node that is to step down"
        } else if expected_node_id.len() > NAME_BYTES {
            "is longer than any node ID"
        } else if expected_node_epoch == 0 {
            let field = "expected_node_epoch".to_owned();
            let rule = "is missing, or 0, which no epoch is: name the tenure that is to end".to_owned();
            return Err(Invalid { field, rule });
        } else {
            return Ok(Self { node_id: Name::from(expected_node_id), epoch: Epoch(expected_node_epoch) });
        };
        Err(Invalid { field: "expected_node_id".to_owned(), rule: rule.to_owned() })
    }
}

fn described(answer: AdminAnswer) -> Result<proto::NodeDescription, Status> {
    let AdminAnswer::Described { node_id, epoch, holder } = answer else {
        return Err(misplaced());
    };
    Ok(proto::NodeDescription {
        node_id: node_id.to_string(),
        node_epoch: epoch.0,
        holder_process_id: holder.to_string(),
    })
}

fn stepped_down(answer: AdminAnswer) -> Result<proto::StepDownResponse, Status> {
    let AdminAnswer::SteppedDown { node_id, released_epoch, hold_off_ms, outcome } = answer else {
        return Err(misplaced());
    };
    let (holder, active, detail) = match outcome {
        StepDownOutcome::TakenOver { active } => {
            (LeaseHolder::TakenOverByAnotherProcess, active, String::new())
        }
        StepDownOutcome::TakenBack { active } => {
            (LeaseHolder::TakenBackByThisProcess, Some(active), String::new())
        }
        StepDownOutcome::Unknown { detail } => (LeaseHolder::Unknown, None, detail.to_string()),
    };
    Ok(proto::StepDownResponse {
        node_id: node_id.to_string(),
        released_node_epoch: released_epoch.0,
        lease_reacquisition_hold_off_ms: i64::try_from(hold_off_ms).unwrap_or(i64::MAX),
        lease_holder_after_step_down: holder.into(),
        active: active.map(|ActiveProcess { epoch, holder }| proto::ActiveProcess {
            node_epoch: epoch.0,
            holder_process_id: holder.to_string(),
        }),
        lease_holder_unknown_detail: detail,
    })
}

fn misplaced() -> Status {
    Status::internal("a fault of the server: the answer of another call")
}

/// Why nothing was answered. FAILED_PRECONDITION always means that this call changed nothing.
fn refused(error: AdminError, expected: Option<&Expected>) -> Status {
    let AdminError { code, reason } = error;
    let message = match (&reason, expected) {
        (AdminReason::OtherEpoch { present }, Some(expected)) if expected.epoch < *present => format!(
            "nothing was changed: the tenure of epoch {} is over, this is epoch {present}",
            expected.epoch
        ),
        (AdminReason::OtherEpoch { present }, Some(expected)) => {
            format!("nothing was changed: epoch {} was never held, this is epoch {present}", expected.epoch)
        }
        (AdminReason::OtherNode, Some(expected)) => {
            format!("nothing was changed: this is not a process of node {}", expected.node_id)
        }
        (
            AdminReason::Standby
            | AdminReason::TakingOver
            | AdminReason::SteppingDown
            | AdminReason::ShuttingDown
            | AdminReason::LeaseEnded
            | AdminReason::LeaseInDoubt
            | AdminReason::OldConnection
            | AdminReason::OtherNode
            | AdminReason::OtherEpoch { .. }
            | AdminReason::Ended(_),
            _,
        ) => match code {
            AdminCode::FailedPrecondition if expected.is_some() => format!("nothing was changed: {reason}"),
            AdminCode::FailedPrecondition | AdminCode::Unavailable | AdminCode::Internal => {
                reason.to_string()
            }
        },
    };
    let code = match code {
        AdminCode::FailedPrecondition => Code::FailedPrecondition,
        AdminCode::Unavailable => Code::Unavailable,
        AdminCode::Internal => Code::Internal,
    };
    Status::new(code, message)
}
