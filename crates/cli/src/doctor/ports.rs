//! Whether the addresses that a system listens on are free, and who has those that are not.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use espalier_proto::pb::drafter_client::DrafterClient;
use espalier_proto::pb::generation_client::GenerationClient;
use espalier_proto::pb::verifier_client::VerifierClient;
use espalier_proto::pb::{DescribeDrafterRequest, DescribeVerifierRequest, ListTargetsRequest};
use espalier_service_kit::channel;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::finding::Finding;

/// How long whoever has a port may take to say who it is.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// What is to listen somewhere.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    /// Like `gateway` or `verifier small`.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    /// The option that says where.
    pub(crate) option: &'static str,
}

/// How an address stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Port {
    Free,
    /// Someone listens there.
    Taken(Owner),
    /// It cannot be had for another reason.
    Refused(String),
}

/// Who listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A service of ours, like `a gateway for small, medium`.
    Ours(String),
    /// Someone who does not speak as our services do.
    Stranger,
}

pub(crate) fn judge(listener: &Listener, port: &Port) -> Finding {
    let Listener { name, address, option } = listener;
    let check = format!("port {}", address.port());
    let other = format!("{option} with another port (0 takes a free one)");
    match port {
        Port::Free => Finding::ok(check, format!("{address} is free for the {name}")),
        Port::Taken(Owner::Ours(who)) => Finding::warning(
            check,
            format!("{address} is taken by {who}"),
            format!("a second system beside it needs {other}"),
        ),
        Port::Taken(Owner::Stranger) => Finding::fault(
            check,
            format!("{address}, for the {name}, is taken by another program, or by an espalier under TLS"),
            format!("end that program, or {other}"),
        ),
        Port::Refused(why) => Finding::fault(
            check,
            format!("{address}, for the {name}, cannot be had: {why}"),
            format!("{other}, or another --host"),
        ),
    }
}

/// How an address stands at this moment. Who has it is asked.
pub(crate) async fn look(address: SocketAddr) -> Port {
    match TcpListener::bind(address) {
        Ok(_) => Port::Free,
        Err(error) if error.kind() == ErrorKind::AddrInUse => Port::Taken(owner(address).await),
        Err(error) => Port::Refused(error.to_string()),
    }
}

async fn owner(address: SocketAddr) -> Owner {
    let ours = timeout(ANSWER_MAX, ours(address)).await.ok().flatten();
    ours.map_or(Owner::Stranger, Owner::Ours)
}

/// What a service of ours says that it is.
async fn ours(address: SocketAddr) -> Option<String> {
    let channel = channel(&format!("http://{address}")).ok()?;
    if let Some(targets) = gateway(channel.clone()).await {
        return Some(targets);
    }
    let described = VerifierClient::new(channel.clone()).describe(DescribeVerifierRequest {}).await;
    if let Ok(card) = described {
        return Some(format!("the verifier of `{}`", card.into_inner().name));
    }
    let described = DrafterClient::new(channel).describe(DescribeDrafterRequest {}).await;
    described.ok().map(|card| format!("the drafter `{}`", card.into_inner().name))
}

async fn gateway(channel: Channel) -> Option<String> {
    match GenerationClient::new(channel).list_targets(ListTargetsRequest {}).await {
        Ok(answer) => {
            let targets = answer.into_inner().targets.into_iter().map(|target| target.name);
            Some(format!("an espalier gateway for {}", targets.collect::<Vec<_>>().join(", ")))
        }
        Err(status) if asks_for_keys(&status) => Some("an espalier gateway that asks for a key".to_owned()),
        Err(_) => None,
    }
}

fn asks_for_keys(status: &Status) -> bool {
    matches!(status.code(), Code::Unauthenticated | Code::PermissionDenied)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::finding::Level;
    use super::*;

    fn listener() -> Listener {
        let address = SocketAddr::from(([127, 0, 0, 1], 50051));
        Listener { name: "gateway".to_owned(), address, option: "--port" }
    }

    #[test]
    fn a_port_of_ours_is_a_warning_and_that_of_a_stranger_a_fault() {
        let level = |port| judge(&listener(), &port).level;
        assert_eq!(level(Port::Free), Level::Ok);
        assert_eq!(level(Port::Taken(Owner::Ours("the drafter `x`".to_owned()))), Level::Warning);
        assert_eq!(level(Port::Taken(Owner::Stranger)), Level::Fault);
        let refused = judge(&listener(), &Port::Refused("no permission".to_owned()));
        assert_eq!(refused.says, "127.0.0.1:50051, for the gateway, cannot be had: no permission");
        assert!(refused.advice.unwrap().starts_with("--port with another port"));
    }

    #[tokio::test]
    async fn what_says_nothing_is_a_stranger_and_what_is_not_there_is_free() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let dropping = std::thread::spawn(move || drop(taken.accept()));
        assert_eq!(look(address).await, Port::Taken(Owner::Stranger));
        dropping.join().unwrap();
        assert_eq!(look(address).await, Port::Free);
        assert!(matches!(look("192.0.2.1:50051".parse().unwrap()).await, Port::Refused(_)));
    }
}
