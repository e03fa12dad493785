// Ticks: round numbers, round durations, round dates; and scales.

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 345600, 604800, 1209600];
const STEPS_MONTHS = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200];
const MONTH_S = 30.4 * 86400;
const WAITS_S = [1, 10, 60, 600, 3600, 21600, 86400, 604800, 2592000, 31536000, 315360000];
const WAIT_NAMES = ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d", "1 week", "30 d", "1 year", "10 years"];

// about `most` round numbers from low to high
function roundTicks(low, high, most = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999);
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) {
    ticks.push(Number((n * step).toPrecision(12)));
  }
  return ticks;
}

// [[value, label]] of a logarithmic axis of durations
function waitTicks(low, high) {
  return WAITS_S.map((s, n) => [s, WAIT_NAMES[n]]).filter(([s]) => s >= low && s <= high);
}

function powerTicks(low, high) {
  const ticks = [];
  for (let power = Math.ceil(Math.log10(low) - 1e-9); 10 ** power <= high * 1.001; power++) {
    ticks.push([10 ** power, plain(10 ** power)]);
  }
  const few = Math.ceil(ticks.length / 7);
  return ticks.filter((_, n) => n % few === 0);
}

// 1, 2, 5, 10, 20, …: a few round numbers of a logarithmic axis, also of a short one
function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) {
    for (const n of [1, 2, 5]) {
      const value = Number((n * 10 ** power).toPrecision(3));
      if (value >= low && value <= high) ticks.push([value, plain(value)]);
    }
  }
  return ticks.length > 9 ? powerTicks(low, high) : ticks;
}

// [{tick, label, below}] of the time axis; `below` holds what changes rarely: the day, or the year
function timeTicks(clock, from, to, most) {
  return clock.dated ? dateTicks(clock, from, to, most) : elapsedTicks(clock, from, to, most);
}

function elapsedTicks(clock, from, to, most) {
  const low = clock.seconds(from), high = clock.seconds(to), span = high - low;
  const units = [[365.25 * 86400, "years", "year", 3], [86400, "days", "day", 3], [3600, "h", "h", 3],
    [60, "min", "min", 3], [1, "s", "s", 0]];
  const [unit, many, one] = units.find(([length, , , least]) => span >= least * length);
  const step = STEPS_S.find((s) => span / s <= most);
  if (unit < 86400 && high > 100 * unit && step !== undefined && span >= 3) return clockTicks(clock, low, high, step);
  return roundTicks(low / unit, high / unit, most).map((value) => ({
    tick: (value * unit) / clock.unit, label: `${plain(value, 9)} ${value === 1 ? one : many}`, below: "",
  }));
}

// 14:05:10 since the first submit, with the day below: what is far from the start, looked at closely
function clockTicks(clock, low, high, step) {
  const ticks = [];
  let shown = "";
  for (let s = Math.ceil(low / step) * step; s <= high; s += step) {
    const day = Math.floor(s / 86400), rest = s % 86400;
    const seconds = step % 60 ? `:${two(rest % 60)}` : "";
    const below = high >= 86400 ? `+ ${counted(day, "day")}` : "";
    ticks.push({
      tick: s / clock.unit, below: below === shown ? "" : below,
      label: `${two(Math.floor(rest / 3600))}:${two(Math.floor(rest / 60) % 60)}${seconds}`,
    });
    shown = below;
  }
  return ticks;
}

function dateTicks(clock, from, to, most) {
  const span = clock.seconds(to - from);
  const step = STEPS_S.find((s) => span / s <= most);
  const begin = clock.local(from), ticks = [];
  const put = (time, offset) => {
    // the site's midnight, read back to UTC by what the clock is ahead then
    let unix = time / 1000 - offset;
    unix = time / 1000 - clock.ahead(unix);
    const tick = (unix - clock.epoch - clock.start) / clock.unit;
    if (tick >= from && tick <= to) ticks.push({ tick, at: new Date(time) });
    return tick <= to;
  };
  const offset = clock.ahead(clock.unix(from));
  if (step !== undefined) {
    const day = Date.UTC(begin.getUTCFullYear(), begin.getUTCMonth(), begin.getUTCDate());
    const whole = step > 86400 ? day - (Math.floor(day / 86400000) % (step / 86400)) * 86400000 : day;
    const first = Math.max(0, Math.floor((begin - whole) / (1000 * step)));
    for (let n = first; put(whole + 1000 * step * n, offset) && n < first + 4 * most; n++);
  } else {
    const months = STEPS_MONTHS.find((m) => span / (m * MONTH_S) <= most) || 6000;
    let month = Math.floor((begin.getUTCFullYear() * 12 + begin.getUTCMonth()) / months) * months;
    for (let n = 0; n < 4 * most && put(Date.UTC(Math.floor(month / 12), month % 12, 1), offset); n++) month += months;
  }
  return dateLabels(ticks);
}

function dateLabels(ticks) {
  const some = (test) => ticks.some(({ at }) => test(at));
  const byTime = some((at) => at.getUTCHours() || at.getUTCMinutes() || at.getUTCSeconds());
  const byDay = byTime || some((at) => at.getUTCDate() !== 1);
  const byMonth = byDay || some((at) => at.getUTCMonth() !== 0);
  const seconds = some((at) => at.getUTCSeconds());
  let shown = "";
  for (const tick of ticks) {
    const at = tick.at, month = MONTHS[at.getUTCMonth()], year = String(at.getUTCFullYear());
    let below = "";
    if (byTime) {
      tick.label = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${seconds ? `:${two(at.getUTCSeconds())}` : ""}`;
      below = `${at.getUTCDate()} ${month} ${year}`;
    } else if (byDay) [tick.label, below] = [`${at.getUTCDate()} ${month}`, year];
    else if (byMonth) [tick.label, below] = [month, year];
    else tick.label = year;
    tick.below = below === shown ? "" : below;
    shown = below;
  }
  return ticks;
}

function linear(low, high, from, to) {
  const per = high > low ? (to - from) / (high - low) : 0;
  return (value) => from + (value - low) * per;
}

function logarithmic(low, high, from, to) {
  const scale = linear(Math.log(low), Math.log(high), from, to);
  return (value) => scale(Math.log(Math.max(value, low)));
}
