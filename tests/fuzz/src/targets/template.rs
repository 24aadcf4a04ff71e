//! Chat templates.

use std::time::{Duration, UNIX_EPOCH};

use espalier_text::{ChatTemplate, Conversation, Message, Parts, Tokenizer};
use serde_json::json;

use crate::target::{Target, refused};
use crate::targets::tokenizer::tiny;

pub(crate) const TARGET: Target = Target {
    name: "template",
    about: "A chat template is refused, or makes a bounded prompt of a conversation, or says why it cannot.",
    run: |bytes| {
        if is_costly(bytes) {
            return false;
        }
        let config = json!({ "bos_token": "<s>", "eos_token": "</s>" }).to_string().into_bytes();
        let (tokenizer, chat_template) = (tiny().to_string().into_bytes(), Some(bytes.to_vec()));
        let parts = Parts { tokenizer, config: Some(config), chat_template };
        let Ok(tokenizer) = Tokenizer::from_parts(parts) else { return false };
        let Some(source) = tokenizer.chat_template() else { return false };
        let call = json!({"id": "1", "function": {"name": "f", "arguments": {"a": [1, null]}}});
        let messages = vec![
            Message::new("system", "be\u{e9}"),
            Message::new("user", "{{ 1 }} \"<b>\"\n"),
            Message { tool_calls: vec![call], ..Message::new("assistant", "yo") },
        ];
        let tools = vec![json!({"type": "function", "function": {"name": "f", "parameters": {}}})];
        let conversations = [Conversation { messages, tools }, Conversation::default()];
        let now = UNIX_EPOCH + Duration::from_secs(1_721_952_000);
        let render = |said: &_| match ChatTemplate::parse(source).and_then(|template| template.render(said, now)) {
            Err(refusal) => {
                assert!(refusal.to_string().len() < 1 << 12, "a refusal of many words");
                refused(&refusal)
            }
            Ok(prompt) => {
                assert!(prompt.len() <= 8 << 20, "a prompt of {} bytes", prompt.len());
                true
            }
        };
        conversations.iter().fold(false, |rendered, said| render(said) | rendered)
    },
    seeds: || TEMPLATES.map(|template| template.as_bytes().to_vec()).into(),
    tries: 500,
    memory_max: 64 << 20,
};

/// The longest template that is tried, in bytes.
const BYTES_MAX: usize = 4096;

/// Whether a template may take any memory: that of its values is bounded by the process that renders it, and not by
/// what is tried here. What multiplies or pads does so by numbers of at most three digits, and once.
fn is_costly(template: &[u8]) -> bool {
    let digits = template.split(|byte| !byte.is_ascii_digit() && *byte != b'_').map(<[u8]>::len).max();
    let multiplies = template.iter().filter(|&&byte| byte == b'*').count();
    template.len() > BYTES_MAX || digits.is_some_and(|digits| digits > 3) || multiplies > 1
}

/// What real ones use.
const TEMPLATES: [&str; 5] = [
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}<|user|>\n\
     {{ message['content'] | trim }}\n{% elif message.role == 'assistant' %}{{ message.content }}{{ eos_token }}\
     {% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
    "{% set ns = namespace(found=false, text='') %}{%- for m in messages[1:] -%}{% set ns.found = loop.index0 % 2 == 0 %}\
     {% if (m.role == 'user') != ns.found %}{{ raise_exception('roles must alternate ' ~ m.role) }}{% endif %}\
     {%- endfor %}{{ ns.text ~ messages|length }}",
    "{% macro one(m, end='') %}{{ '<' + m['role'].strip().title() + '>' + m.content.split(' ')[-1] + end }}{% endmacro %}\
     {% for m in messages if m.content is string and not loop.last %}{{ one(m, '\\n') }}{% else %}none{% endfor %}",
    "{{ messages | tojson(indent=2) }}{{ {'a': [1, 2.5, none]} | tojson }}{{ strftime_now('%d %b %Y') }}\
     {% generation %}{{ messages[::-1] | map(attribute='role') | join(', ') }}{% endgeneration %}",
    "{% for i in range(3) %}{{ i * 2 // 3 }}{{ '%s-%05d' | format('x', i) }}{% if i is odd %}{% continue %}{% endif %}\
     {{ messages | selectattr('role', 'equalto', 'user') | list | first | default({}) | dictsort }}{% endfor %}",
];
