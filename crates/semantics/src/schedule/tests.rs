//! Schedules with the times and messages of `robfig/cron` v3.0.1.

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn schedule(text: &str, zone: &str) -> Schedule {
    Schedule::parse(text, time_zone(zone).unwrap()).unwrap()
}

/// Returns the next times, the date and the time of day of each.
fn times(text: &str, zone: &str, after: &str) -> Vec<String> {
    let schedule = schedule(text, zone);
    let times = std::iter::successors(schedule.next(at(after)), |time| schedule.next(*time));
    times.take(4).map(|time| time.strftime("%F %T").to_string()).collect()
}

#[test]
fn fields_match_as_in_kubernetes() {
    for (text, after, expected) in [
        ("*/15 * * * *", "2026-01-01T00:00:00Z", ["2026-01-01 00:15:00", "2026-01-01 00:30:00"]),
        ("0 2 * * *", "2026-01-01T01:59:59.5Z", ["2026-01-01 02:00:00", "2026-01-02 02:00:00"]),
        ("30 6-16/4 * * 1-5", "2026-01-02T10:30:00Z", ["2026-01-02 14:30:00", "2026-01-05 06:30:00"]),
        ("5/20 4,,8 1 jan,Jul *", "2026-02-01T00:00:00Z", ["2026-07-01 04:05:00", "2026-07-01 04:25:00"]),
        // A day of either field, unless one of them is a star.
        ("0 0 13 * 5", "2026-02-01T00:00:00Z", ["2026-02-06 00:00:00", "2026-02-13 00:00:00"]),
        ("0 0 */2 * 1", "2026-02-01T00:00:00Z", ["2026-02-02 00:00:00", "2026-02-03 00:00:00"]),
        ("0 0 1-31 * 1", "2026-02-01T00:00:00Z", ["2026-02-02 00:00:00", "2026-02-03 00:00:00"]),
        ("0 0 */1 * 1", "2026-02-01T00:00:00Z", ["2026-02-02 00:00:00", "2026-02-09 00:00:00"]),
        ("0 0 1,* * 1", "2026-02-01T00:00:00Z", ["2026-02-02 00:00:00", "2026-02-09 00:00:00"]),
        ("0 0 ? * MON-tue", "2026-02-03T00:00:00Z", ["2026-02-09 00:00:00", "2026-02-10 00:00:00"]),
        ("0 0 29 2 *", "2026-02-01T00:00:00Z", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
        ("@hourly", "2026-01-01T00:30:00Z", ["2026-01-01 01:00:00", "2026-01-01 02:00:00"]),
        ("@midnight", "2026-01-01T00:30:00Z", ["2026-01-02 00:00:00", "2026-01-03 00:00:00"]),
        ("@weekly", "2026-01-01T00:30:00Z", ["2026-01-04 00:00:00", "2026-01-11 00:00:00"]),
        ("@monthly", "2026-01-01T00:30:00Z", ["2026-02-01 00:00:00", "2026-03-01 00:00:00"]),
        ("@annually", "2026-01-01T00:30:00Z", ["2027-01-01 00:00:00", "2028-01-01 00:00:00"]),
        ("@every 1h30m10.9s", "2026-01-01T00:30:00.5Z", ["2026-01-01 02:00:10", "2026-01-01 03:30:20"]),
        ("@every 5ms", "2026-01-01T00:30:00Z", ["2026-01-01 00:30:01", "2026-01-01 00:30:02"]),
    ] {
        assert_eq!(times(text, "UTC", after)[..2], expected, "{text}");
    }
}

#[test]
fn a_time_that_the_clock_skips_is_skipped_and_one_that_it_repeats_is_repeated() {
    for (text, zone, after, expected) in [
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-27T12:00:00Z",
            ["2026-03-28 01:30:00", "2026-03-30 00:30:00", "2026-03-31 00:30:00", "2026-04-01 00:30:00"],
        ),
        (
            "0 3 * * *",
            "Europe/Berlin",
            "2026-03-27T12:00:00Z",
            ["2026-03-28 02:00:00", "2026-03-29 01:00:00", "2026-03-30 01:00:00", "2026-03-31 01:00:00"],
        ),
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            ["2026-10-25 00:30:00", "2026-10-25 01:30:00", "2026-10-26 01:30:00", "2026-10-27 01:30:00"],
        ),
        (
            "0 * * * *",
            "Europe/Berlin",
            "2026-10-24T23:30:00Z",
            ["2026-10-25 00:00:00", "2026-10-25 01:00:00", "2026-10-25 02:00:00", "2026-10-25 03:00:00"],
        ),
        // Midnight itself is skipped.
        (
            "0 0 * * *",
            "America/Havana",
            "2026-03-06T12:00:00Z",
            ["2026-03-07 05:00:00", "2026-03-09 04:00:00", "2026-03-10 04:00:00", "2026-03-11 04:00:00"],
        ),
        (
            "0 1 * * *",
            "America/Sao_Paulo",
            "2018-11-02T12:00:00Z",
            ["2018-11-03 04:00:00", "2018-11-04 03:00:00", "2018-11-05 03:00:00", "2018-11-06 03:00:00"],
        ),
        // Half an hour is skipped, and repeated.
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-02T12:00:00Z",
            ["2026-10-02 15:45:00", "2026-10-04 15:15:00", "2026-10-05 15:15:00", "2026-10-06 15:15:00"],
        ),
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-03T12:00:00Z",
            ["2026-04-03 14:45:00", "2026-04-04 14:45:00", "2026-04-04 15:15:00", "2026-04-05 15:15:00"],
        ),
    ] {
        assert_eq!(times(text, zone, after), expected, "{text} {zone}");
    }
    // `robfig/cron` does not return from a day that a zone lacks.
    assert_eq!(times("0 0 30 12 *", "Pacific/Apia", "2011-01-01T00:00:00Z")[0], "2012-12-29 10:00:00");
}

#[test]
fn a_schedule_may_have_no_times() {
    for text in ["59 23 31 2 *", ", * * * *", "* , * * *", "* * * , *"] {
        assert_eq!(times(text, "UTC", "2026-01-01T00:00:00Z"), [""; 0], "{text}");
    }
}

#[test]
fn the_last_time_is_found_however_uneven_they_are() {
    for text in ["*/20 * * * *", "*/7 3-5 * * *", "0,1 0 1 1 *", "* * 1 1 *", "0 2 * * 1-5", "30 2 * * *"] {
        let schedule = schedule(text, "Europe/Berlin");
        let from = at("2025-12-30T00:00:00Z");
        let all = std::iter::successors(schedule.next(from), |time| schedule.next(*time));
        let all: Vec<Timestamp> = all.take_while(|time| *time < at("2026-04-02T00:00:00Z")).collect();
        for until in
            ["2025-12-30T00:00:30Z", "2025-12-31T23:00:00Z", "2026-03-29T00:59:59.9Z", "2026-04-01T00:30:00Z"]
        {
            let last = all.iter().copied().take_while(|time| *time <= at(until)).last();
            assert_eq!(schedule.last(from, at(until)), last, "{text} until {until}");
        }
    }
    let every = schedule("@every 90m", "UTC");
    let last = |until: &str| every.last(at("2026-01-01T00:00:10Z"), at(until)).map(|time| time.to_string());
    assert_eq!(last("2026-01-01T01:30:09Z"), None);
    assert_eq!(last("2026-01-02T00:00:10Z").as_deref(), Some("2026-01-02T00:00:10Z"));
}

#[test]
fn what_kubernetes_refuses_is_refused_in_its_words() {
    for (text, expected) in [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        (" @daily", "expected exactly 5 fields, found 1: [@daily]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 1,7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
        ("*/x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ("-1 * * * *", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
        ("JAN * * * *", "failed to parse int from JAN: strconv.Atoi: parsing \"JAN\": invalid syntax"),
        (
            "99999999999999999999 * * * *",
            "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of range",
        ),
        ("* * 15W * *", "failed to parse int from 15W: strconv.Atoi: parsing \"15W\": invalid syntax"),
        ("* * * * 5#2", "failed to parse int from 5#2: strconv.Atoi: parsing \"5#2\": invalid syntax"),
        ("@reboot", "unrecognized descriptor: @reboot"),
        ("@every", "unrecognized descriptor: @every"),
        ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
        ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
        ("@every 1d", "failed to parse duration @every 1d: time: unknown unit \"d\" in duration \"1d\""),
        (
            "@every 99999999h",
            "failed to parse duration @every 99999999h: time: invalid duration \"99999999h\"",
        ),
    ] {
        let refused = Schedule::parse(text, TimeZone::UTC).map_err(|error| error.to_string());
        assert_eq!(refused, Err(expected.to_owned()), "{text}");
    }
    for text in ["+5 * * * *", "*/100 * * * *", "*-5 * * * *", "@every -1h", "@every .5h", "0 0 * * sun-SAT"]
    {
        assert!(Schedule::parse(text, TimeZone::UTC).is_ok(), "{text}");
    }
}

#[test]
fn time_zones_are_named_exactly() {
    let known = |name| time_zone(name).is_some();
    assert!(known("UTC") && known("Etc/GMT+5") && known("America/Argentina/Buenos_Aires"));
    assert!(!known("europe/berlin") && !known("Europe/Bonn") && !known("") && !known("Local"));
}
