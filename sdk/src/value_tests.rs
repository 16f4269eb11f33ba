use dexzd_proto::attribute_value::Kind;

use super::*;

fn attribute<T: Serialize>(value: &T) -> Option<Kind> {
    encode_attribute(value).unwrap().kind
}

#[test]
fn attributes_keep_the_types_that_can_be_searched() {
    assert_eq!(attribute(&"paid"), Some(Kind::StringValue("paid".to_owned())));
    assert_eq!(attribute(&-3), Some(Kind::IntValue(-3)));
    assert_eq!(attribute(&2.0), Some(Kind::DoubleValue(2.0)));
    assert_eq!(attribute(&true), Some(Kind::BoolValue(true)));
    assert_eq!(attribute(&None::<u32>), None);
    let object = |data: &str| {
        Some(Kind::ObjectValue(proto::Value { encoding: "json".to_owned(), data: data.as_bytes().to_vec() }))
    };
    assert_eq!(attribute(&[1, 2]), object("[1,2]"));
    assert_eq!(attribute(&u64::MAX), object("18446744073709551615"));
}

#[test]
fn an_attribute_reads_back_as_what_was_written() {
    fn round_trip<T: Serialize + DeserializeOwned>(value: &T) -> Option<T> {
        decode_attribute(&encode_attribute(value).unwrap()).unwrap()
    }
    assert_eq!(round_trip(&"paid".to_owned()), Some("paid".to_owned()));
    assert_eq!(round_trip(&i64::MIN), Some(i64::MIN));
    assert_eq!(round_trip(&u64::MAX), Some(u64::MAX));
    assert_eq!(round_trip(&2.0), Some(2.0));
    assert_eq!(round_trip(&vec![Some(1), None]), Some(vec![Some(1), None]));
}

#[test]
fn a_value_of_another_type_or_encoding_is_refused_by_name() {
    let value = encode(&"text").unwrap();
    assert_eq!(
        decode::<u32>(Some(&value)).unwrap_err().to_string(),
        "cannot read 6 bytes of \"json\" as a u32: invalid type: string \"text\", expected u32 at line 1 column 6"
    );
    let other = proto::Value { encoding: "protobuf".to_owned(), data: vec![1] };
    assert_eq!(
        decode::<u32>(Some(&other)).unwrap_err().to_string(),
        "cannot read 1 bytes of \"protobuf\" as a u32: this library reads the encoding \"json\" only"
    );
}

#[test]
fn a_value_over_1_mib_is_refused_before_it_travels() {
    let text = "x".repeat(VALUE_BYTES);
    assert_eq!(
        encode(&text),
        Err(ValueError::TooLarge { type_name: "alloc::string::String", bytes: VALUE_BYTES + 2 })
    );
}
