//! What the pages say of the protocol files.

use prost_reflect::{DescriptorPool, Kind, MessageDescriptor};
use serde_json::Value;

use crate::shell::Command;

fn pool() -> DescriptorPool {
    DescriptorPool::decode(espalier_proto::FILE_DESCRIPTOR_SET).unwrap()
}

/// Whether a call by `grpcurl` names a method, and fields of its request.
pub(crate) fn grpcurl(command: &Command) -> Result<(), String> {
    let called = command.words.last().map_or("", String::as_str);
    let (service, method) = called.rsplit_once('/').ok_or_else(|| format!("`{called}` is no method"))?;
    let pool = pool();
    let service = pool.get_service_by_name(service).ok_or_else(|| format!("there is no service `{service}`"))?;
    let method = service.methods().find(|found| found.name() == method);
    let method = method.ok_or_else(|| format!("there is no method `{called}`"))?;
    command.values("-d").try_for_each(|data| {
        let data: Value = serde_json::from_str(data).map_err(|error| error.to_string())?;
        fields(&data, &method.input())
    })
}

/// Whether each key of an object is a field of the message, in its JSON form.
fn fields(data: &Value, message: &MessageDescriptor) -> Result<(), String> {
    let object = data.as_object().ok_or_else(|| format!("{data} is no {}", message.name()))?;
    for (key, value) in object {
        let field = message.get_field_by_json_name(key);
        let field = field.ok_or_else(|| format!("{} has no field `{key}`", message.full_name()))?;
        if let Kind::Message(inner) = field.kind() {
            let one = std::slice::from_ref(value);
            value.as_array().map_or(one, Vec::as_slice).iter().try_for_each(|value| fields(value, &inner))?;
        }
    }
    Ok(())
}

#[test]
fn a_call_must_name_what_the_protocol_has() {
    let fault = |line: &str| grpcurl(&crate::shell::commands(line).unwrap()[0]).err().unwrap_or_default();
    let call = |data: &str| fault(&format!("grpcurl -d '{data}' h:1 espalier.v1.Generation/Generate"));
    assert_eq!(call(r#"{"maxTokens": 3, "conversation": {"messages": [{"role": "user"}]}}"#), "");
    assert!(call(r#"{"max_token": 3}"#).contains("max_token"));
    assert!(call(r#"{"conversation": {"messages": [{"rule": "user"}]}}"#).contains("rule"));
    assert!(fault("grpcurl h:1 espalier.v1.Generation/Generated").contains("Generated"));
}
