//! Dates for chat templates that print today's.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_SECONDS: u64 = 86_400;
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A moment in the Gregorian calendar, in UTC.
struct Moment {
    year: u64,
    /// From 0.
    month: usize,
    /// From 1.
    day: u64,
    /// From 0, Monday.
    weekday: usize,
    second_of_day: u64,
}

/// Formats a moment in UTC by the usual directives of `strftime`; `None` if `format` holds another.
pub(crate) fn strftime(format: &str, at: SystemTime) -> Option<String> {
    let moment = Moment::new(at);
    let mut text = String::with_capacity(2 * format.len());
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        match char {
            '%' => text.push_str(&moment.field(chars.next()?)?),
            char => text.push(char),
        }
    }
    Some(text)
}

impl Moment {
    /// Times before 1970 count as 1970.
    fn new(at: SystemTime) -> Self {
        let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let days = seconds / DAY_SECONDS;
        let Date { year, month, day } = Date::of(days);
        Self { year, month, day, weekday: ((days + 3) % 7) as usize, second_of_day: seconds % DAY_SECONDS }
    }

    fn field(&self, directive: char) -> Option<String> {
        let (hour, minute) = (self.second_of_day / 3600, self.second_of_day / 60 % 60);
        Some(match directive {
            'Y' => self.year.to_string(),
            'y' => format!("{:02}", self.year % 100),
            'm' => format!("{:02}", self.month + 1),
            'B' => MONTHS[self.month].to_owned(),
            'b' => MONTHS[self.month][..3].to_owned(),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'A' => WEEKDAYS[self.weekday].to_owned(),
            'a' => WEEKDAYS[self.weekday][..3].to_owned(),
            'H' => format!("{hour:02}"),
            'I' => format!("{:02}", (hour + 11) % 12 + 1),
            'p' => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
            'M' => format!("{minute:02}"),
            'S' => format!("{:02}", self.second_of_day % 60),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

/// A day in the Gregorian calendar: the month from 0, the day from 1.
struct Date {
    year: u64,
    month: usize,
    day: u64,
}

impl Date {
    /// The date of a day counted from 1970-01-01.
    fn of(days: u64) -> Self {
        // Count from 1 March of year 0, so that a leap day ends its year and months follow a 153-day pattern of five.
        let days = days + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        let month = ((march_month + 2) % 12) as usize;
        let year = era * 400 + year_of_era + u64::from(month < 2);
        Self { year, month, day }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn known_moments() {
        let format = "%Y-%m-%d %H:%M:%S %a %A %b %B %y %e %I %p %%";
        let cases = [
            (0, "1970-01-01 00:00:00 Thu Thursday Jan January 70  1 12 AM %"),
            (951_782_400, "2000-02-29 00:00:00 Tue Tuesday Feb February 00 29 12 AM %"),
            (1_709_251_199, "2024-02-29 23:59:59 Thu Thursday Feb February 24 29 11 PM %"),
            (4_107_542_400, "2100-03-01 00:00:00 Mon Monday Mar March 00  1 12 AM %"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(strftime(format, at(seconds)).as_deref(), Some(expected));
        }
    }

    #[test]
    fn unknown_directives_are_refused() {
        assert_eq!(strftime("%Q", at(0)), None);
        assert_eq!(strftime("100%", at(0)), None);
    }
}
