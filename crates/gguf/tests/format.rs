//! What is read of a file, and which faults are told, each in one sentence.
#![allow(clippy::unwrap_used)]

mod writer;

use espalier_gguf::{Array, Gguf, GgufError, TensorType, Value};
use writer::{ARRAY, BOOL, F32, Q4_0, STRING, U8, U32, elements_of, entry, file, header, listing, raw_entry};

fn parse(bytes: &[u8]) -> Gguf {
    Gguf::parse(bytes).unwrap()
}

fn fault(bytes: &[u8]) -> String {
    Gguf::parse(bytes).unwrap_err().to_string()
}

/// The fault of a file with one metadata entry `k` of this type and these bytes, at its end.
fn value_fault(kind: u32, value: &[u8]) -> String {
    fault(&[header(3, 0, 1), raw_entry("k", kind, value)].concat())
}

/// The fault of a file with these tensors and 64 bytes of data.
fn tensor_fault(listings: &[Vec<u8>]) -> String {
    fault(&file(&[], listings, &[0; 64]))
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn values_of_every_type_are_read() {
    let array = |elements| Value::Array(elements);
    let values = [
        Value::U8(255),
        Value::I8(-128),
        Value::U16(65535),
        Value::I16(-32768),
        Value::U32(u32::MAX),
        Value::I32(i32::MIN),
        Value::F32(-1.5),
        Value::Bool(true),
        Value::String("Ünï\0code".to_owned()),
        Value::U64(u64::MAX),
        Value::I64(i64::MIN),
        Value::F64(f64::MIN_POSITIVE),
        array(Array::U8(vec![1, 2])),
        array(Array::I8(vec![-1, 2])),
        array(Array::U16(vec![1, 2])),
        array(Array::I16(vec![-1, 2])),
        array(Array::U32(vec![1, 2])),
        array(Array::I32(vec![-1, 2])),
        array(Array::F32(vec![0.5, -0.0])),
        array(Array::Bool(vec![true, false])),
        array(Array::String(vec![String::new(), "a".to_owned()])),
        array(Array::Array(vec![Array::U8(vec![1]), Array::String(vec!["b".to_owned()])])),
        array(Array::U64(vec![1, 2])),
        array(Array::I64(vec![-1, 2])),
        array(Array::F64(vec![0.5, -0.0])),
        array(Array::U32(vec![])),
    ];
    let keys: Vec<String> = (0..values.len()).map(|index| format!("key.{index:02}")).collect();
    let entries: Vec<Vec<u8>> = keys.iter().zip(&values).map(|(key, value)| entry(key, value)).collect();
    let gguf = parse(&file(&entries, &[], &[]));
    let read: Vec<(&str, &Value)> = gguf.metadata().iter().collect();
    let expected: Vec<(&str, &Value)> = keys.iter().map(String::as_str).zip(&values).collect();
    assert_eq!(read, expected);
}

#[test]
fn metadata_answer_by_type() {
    let entries = [
        entry("layers", &Value::U32(8)),
        entry("eps", &Value::F32(1e-5)),
        entry("name", &Value::String("a".to_owned())),
        entry("tokens", &Value::Array(Array::String(vec!["b".to_owned()]))),
        entry("types", &Value::Array(Array::I32(vec![1, 3]))),
        entry("below", &Value::I64(-1)),
    ];
    let gguf = parse(&file(&entries, &[], &[]));
    let metadata = gguf.metadata();
    assert_eq!(metadata.required("layers"), Ok(8u32));
    assert_eq!(metadata.required("layers"), Ok(8usize), "any integer may be asked for as a usize");
    assert_eq!(metadata.required("eps"), Ok(1e-5f32));
    assert_eq!(metadata.required("name"), Ok("a"));
    assert_eq!(metadata.required::<&[String]>("tokens").unwrap(), ["b"]);
    assert_eq!(metadata.required::<&[i32]>("types").unwrap(), [1, 3]);
    assert_eq!(metadata.optional::<bool>("gone"), Ok(None));

    let message = |fault: GgufError| fault.to_string();
    let missing = metadata.required::<u32>("gone").map_err(message);
    assert_eq!(missing.unwrap_err(), "the metadata have no entry \"gone\"");
    let wrong = metadata.required::<u32>("eps").map_err(message);
    assert_eq!(wrong.unwrap_err(), "metadata entry \"eps\" is f32, expected u32");
    let wrong = metadata.optional::<&[u32]>("types").map_err(message);
    assert_eq!(wrong.unwrap_err(), "metadata entry \"types\" is array of i32, expected array of u32");
    let below = metadata.required::<usize>("below").map_err(message);
    assert_eq!(below.unwrap_err(), "metadata entry \"below\" is i64, expected an integer from 0 on");
}

#[test]
fn tensors_are_read_the_fastest_dimension_last() {
    let listings = [listing("w", &[3, 2], F32, 0), listing("b", &[2], F32, 32)];
    let data = [floats(&[0., 1., 2., 3., 4., 5.]), vec![0; 8], floats(&[6., 7.])].concat();
    let bytes = file(&[], &listings, &data);
    let gguf = parse(&bytes);
    assert_eq!(gguf.version(), 3);
    assert_eq!(gguf.tensors().map(|(name, _)| name).collect::<Vec<_>>(), ["b", "w"]);
    let w = gguf.tensor(&bytes, "w").unwrap();
    assert_eq!((w.info().shape(), w.info().kind()), (&[2, 3][..], TensorType::F32));
    assert_eq!(w.to_f32(), [0., 1., 2., 3., 4., 5.]);
    assert_eq!(gguf.tensor(&bytes, "b").unwrap().bytes(), floats(&[6., 7.]));
    assert_eq!(gguf.tensor(&bytes, "x").unwrap_err().to_string(), "the file has no tensor \"x\"");
    let other = gguf.tensor(&bytes[..100], "w").unwrap_err();
    let end = gguf.info("w").unwrap().range().end;
    assert_eq!(other.to_string(), format!("tensor \"w\" needs {end} bytes, but 100 are left in the file"));
}

#[test]
fn data_begin_at_the_alignment_that_the_file_names() {
    let entries = [entry("general.alignment", &Value::U32(64))];
    let mut bytes = file(&entries, &[listing("a", &[1], F32, 0), listing("b", &[1], F32, 64)], &[]);
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    bytes.extend([floats(&[1.]), vec![0; 60], floats(&[2.])].concat());
    let gguf = parse(&bytes);
    assert_eq!(gguf.tensor(&bytes, "a").unwrap().to_f32(), [1.]);
    assert_eq!(gguf.tensor(&bytes, "b").unwrap().to_f32(), [2.]);
}

#[test]
fn a_file_of_version_2_is_read_and_one_without_tensors_has_no_data() {
    let gguf = parse(&header(2, 0, 0));
    assert_eq!((gguf.version(), gguf.tensors().count(), gguf.metadata().iter().count()), (2, 0, 0));
}

#[test]
fn other_formats_and_versions_are_refused() {
    assert_eq!(fault(b"GG"), "the header needs 4 bytes, but 2 are left in the file");
    assert_eq!(fault(b"ggml\0\0\0\0"), "a GGUF file begins with \"GGUF\", this one with \"ggml\"");
    assert_eq!(fault(b"PK\x03\x04\0"), "a GGUF file begins with \"GGUF\", this one with \"PK\\x03\\x04\"");
    assert_eq!(fault(&header(1, 0, 0)), "GGUF version 1 is not read, only 2 and 3 are");
    let big = "the file is big-endian GGUF of version 3, and only little-endian is read";
    assert_eq!(fault(&header(3u32.swap_bytes(), 0, 0)), big);
}

#[test]
fn counts_are_held_against_limits_and_the_bytes_that_are_left() {
    let huge = 1 << 60;
    let tensors = "the number of tensors is 1152921504606846976, and at most 65536 is read";
    assert_eq!(fault(&header(3, huge, 0)), tensors);
    let entries = "the number of metadata entries is 1152921504606846976, and at most 16384 is read";
    assert_eq!(fault(&header(3, 0, huge)), entries);
    let tensors = "the number of tensors is 65536, which needs 2097152 bytes, but 8 are left in the file";
    assert_eq!(fault(&header(3, 65536, 0)), tensors);
    let entries = "the number of metadata entries is 2, which needs 26 bytes, but 0 are left in the file";
    assert_eq!(fault(&header(3, 0, 2)), entries);

    let array = |kind: u32, count: u64| [&kind.to_le_bytes()[..], &count.to_le_bytes()].concat();
    let of = "the number of elements of metadata entry \"k\" is";
    let long = format!("{of} 1152921504606846976, and at most 16777216 is read");
    assert_eq!(value_fault(ARRAY, &array(U8, huge)), long);
    for (kind, bytes) in [(U8, 16777216), (U32, 67108864), (STRING, 134217728), (ARRAY, 201326592)] {
        let missing = format!("{of} 16777216, which needs {bytes} bytes, but 0 are left in the file");
        assert_eq!(value_fault(ARRAY, &array(kind, 1 << 24)), missing);
    }
    let long = "the length of metadata entry \"k\" is 1152921504606846976, and at most 268435456 is read";
    assert_eq!(value_fault(STRING, &huge.to_le_bytes()), long);
    let missing = "metadata entry \"k\" needs 268435456 bytes, but 0 are left in the file";
    assert_eq!(value_fault(STRING, &(1u64 << 28).to_le_bytes()), missing);
}

#[test]
fn names_are_short() {
    let long = "k".repeat(257);
    let key = "the length of the key of metadata entry 0 is 257, and at most 256 is read";
    assert_eq!(fault(&file(&[entry(&long, &Value::U8(0))], &[], &[])), key);
    let name = "the length of the name of tensor 0 is 65, and at most 64 is read";
    assert_eq!(tensor_fault(&[listing(&long[..65], &[1], F32, 0)]), name);
    parse(&file(&[entry(&long[..256], &Value::U8(0))], &[listing(&long[..64], &[1], F32, 0)], &[0; 4]));
}

#[test]
fn values_must_be_of_their_type() {
    assert_eq!(value_fault(13, &[0]), "metadata entry \"k\" has type 13, and the types are 0 to 12");
    let array = elements_of(13, &[0u8], |value| vec![*value]);
    assert_eq!(value_fault(ARRAY, &array), "metadata entry \"k\" has type 13, and the types are 0 to 12");
    assert_eq!(value_fault(BOOL, &[2]), "metadata entry \"k\" is 2, and a bool is 0 or 1");
    assert_eq!(value_fault(U32, &[1, 2, 3]), "metadata entry \"k\" needs 4 bytes, but 3 are left in the file");
    let text = [&3u64.to_le_bytes()[..], b"ab\xFF"].concat();
    assert_eq!(value_fault(STRING, &text), "metadata entry \"k\" is not UTF-8 after its first 2 bytes");
    let inner = elements_of(U8, &[0u8], |value| vec![*value]);
    let middle = elements_of(ARRAY, &[inner], Vec::clone);
    let outer = elements_of(ARRAY, &[middle], Vec::clone);
    let nested = "metadata entry \"k\" nests arrays 3 deep, and at most 2 levels are read";
    assert_eq!(value_fault(ARRAY, &outer), nested);
}

#[test]
fn names_are_unique_and_quoted() {
    let entries = [entry("a\n", &Value::U8(0)), entry("a\n", &Value::Bool(true))];
    assert_eq!(fault(&file(&entries, &[], &[])), r#"there are two metadata entries "a\n", and keys are unique"#);
    let listings = [listing("\x1b[m", &[1], F32, 0), listing("\x1b[m", &[1], F32, 32)];
    assert_eq!(tensor_fault(&listings), r#"there are two tensors "\u{1b}[m", and names are unique"#);
}

#[test]
fn the_alignment_is_a_power_of_two() {
    let fault = |value: &Value| fault(&file(&[entry("general.alignment", value)], &[], &[]));
    for found in [0, 48, 1 << 21] {
        let message = format!("general.alignment is {found}, and it must be a power of two up to 1048576");
        assert_eq!(fault(&Value::U32(found)), message);
    }
    assert_eq!(fault(&Value::U64(32)), "metadata entry \"general.alignment\" is u64, expected u32");
}

#[test]
fn shapes_can_be_counted() {
    let shape = |dimensions: &[u64]| tensor_fault(&[listing("t", dimensions, F32, 0)]);
    assert_eq!(shape(&[]), "tensor \"t\" has 0 dimensions, and 1 to 4 are read");
    assert_eq!(shape(&[1; 5]), "tensor \"t\" has 5 dimensions, and 1 to 4 are read");
    let elements = "and 1 to 1099511627776 elements are read";
    assert_eq!(shape(&[3, 0]), format!("tensor \"t\" has shape [0, 3], {elements}"));
    assert_eq!(shape(&[1 << 21, 1 << 20]), format!("tensor \"t\" has shape [1048576, 2097152], {elements}"));
    let most = u64::MAX;
    assert_eq!(shape(&[most; 2]), format!("tensor \"t\" has shape [{most}, {most}], {elements}"));
    assert_eq!(shape(&[most, 0]), format!("tensor \"t\" has shape [0, {most}], {elements}"));
    let rows = tensor_fault(&[listing("t", &[16, 2], Q4_0, 0)]);
    assert_eq!(rows, "tensor \"t\" has rows of 16 elements, and Q4_0 takes multiples of 32");
}

#[test]
fn other_types_are_refused_by_name_and_number() {
    let kind = |number| tensor_fault(&[listing("t", &[256], number, 0)]);
    let read = "and F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K are read";
    assert_eq!(kind(10), format!("tensor \"t\" is of type Q2_K (10), {read}"));
    assert_eq!(kind(4_000_000_000), format!("tensor \"t\" is of type unknown (4000000000), {read}"));
}

#[test]
fn tensors_lie_in_the_file_and_apart() {
    let odd = tensor_fault(&[listing("t", &[1], F32, 4)]);
    assert_eq!(odd, "tensor \"t\" lies at offset 4, which is no multiple of the alignment, 32");
    let long = tensor_fault(&[listing("t", &[9], F32, 32)]);
    assert_eq!(long, "tensor \"t\" has 36 bytes at offset 32, and the data of the file has 64");
    let far = tensor_fault(&[listing("t", &[1], F32, u64::MAX - 31)]);
    assert_eq!(far, "tensor \"t\" has 4 bytes at offset 18446744073709551584, and the data of the file has 64");
    let no_data = fault(&[header(3, 1, 0), listing("t", &[1], F32, 0)].concat());
    assert_eq!(no_data, "tensor \"t\" has 4 bytes at offset 0, and the data of the file has 0");
    let shared = tensor_fault(&[listing("late", &[1], F32, 32), listing("early", &[9], F32, 0)]);
    assert_eq!(shared, "tensor \"late\" begins at byte 160 of the file, before \"early\" ends at byte 164");
}
