// Numbers, durations and dates as text that cannot be misread.

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const UNKNOWN_TEXT = "unknown";

// 1,234 or 0.0123: plain digits, never powers of ten up to a quadrillion
function plain(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e15 || size < 1e-6)) return value.toPrecision(3);
  const whole = size >= 1 ? Math.floor(Math.log10(size)) + 1 : 0;
  const most = Number.isInteger(value) ? 0 : Math.max(0, digits - whole);
  const small = size > 0 && size < 1 ? digits - 1 - Math.floor(Math.log10(size)) : most;
  return value.toLocaleString("en-GB", { maximumFractionDigits: Math.min(12, small) });
}

function counted(number, noun, many) {
  return `${plain(number)} ${number === 1 ? noun : many || noun + "s"}`;
}

function percent(share, digits = 3) {
  return share === null || share === undefined ? "–" : `${plain(100 * share, digits)}%`;
}

// 12.5 s, 4 min 05 s, 7 h 12 min, 3 d 4 h, 2.4 years: the two largest units
function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (!Number.isFinite(seconds)) return "no limit";
  const sign = seconds < 0 ? "−" : "", size = Math.abs(seconds);
  if (size > 0 && size < 0.9995) return `${sign}${plain(1000 * size, 3)} ms`;
  if (size < 60) return `${sign}${plain(size, 3)} s`;
  const minutes = Math.floor(size / 60), rest = Math.round(size % 60);
  if (size < 3570) return `${sign}${pair(minutes, "min", rest, "s", 60)}`;
  const hours = Math.floor(size / 3600);
  if (size < 86400) return `${sign}${pair(hours, "h", Math.round((size % 3600) / 60), "min", 60)}`;
  const days = Math.floor(size / 86400);
  if (size < 30 * 86400) return `${sign}${pair(days, "d", Math.round((size % 86400) / 3600), "h", 24)}`;
  if (size < 2 * 365.25 * 86400) return `${sign}${plain(size / 86400, 3)} d`;
  return `${sign}${plain(size / 86400 / 365.25, 3)} years`;
}

function pair(large, name, small, below, carry) {
  if (small === carry) return `${large + 1} ${name}`;
  return small ? `${large} ${name} ${small} ${below}` : `${large} ${name}`;
}

const SCALED = {
  "W": [[1e9, "GW"], [1e6, "MW"], [1e3, "kW"], [1, "W"]],
  "J": [[3.6e12, "MWh"], [3.6e6, "kWh"], [3600, "Wh"], [1, "J"]],
  "kWh": [[1e6, "GWh"], [1e3, "MWh"], [1, "kWh"]],
  "Wh": [[1e9, "GWh"], [1e6, "MWh"], [1e3, "kWh"], [1, "Wh"]],
};

// the factor and the name of a unit in which a number is readable
function unitFor(unit, size) {
  const scales = SCALED[unit];
  if (!scales) return [1, unit];
  return scales.find(([factor]) => size >= factor) || scales[scales.length - 1];
}

const SHARE = null; // the unit of shares, which are shown in per cent

// a metric's number with its unit
function quantity(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "s") return duration(value);
  if (unit === SHARE) return percent(value);
  if (unit === "1" || unit === "1/h" || !unit) return plain(value); // the name says "per hour"
  if (unit.length > 12) return plain(value); // a sentence, shown elsewhere
  const [factor, name] = unitFor(unit, Math.abs(value));
  return `${plain(value / factor)} ${name}`;
}

// "wait_time_s" as "wait time"
function metricName(name) {
  const [head, part] = name.split(".");
  const words = head.replace(/_(s|w|kwh|kg|per_h)$/, (unit) => (unit === "_per_h" ? " per hour" : ""));
  const known = { p50: "median", p90: "90th percentile", p99: "99th percentile", max: "maximum" };
  const tail = part ? `, ${known[part] || part}` : "";
  const of = words.replace(/_/g, " ").replace(/^(utilisation|offered load|fragmentation|stranded) (?=\S)/, "$1 of ");
  return of + tail;
}

// The clock: ticks of the file → seconds → dates at the site, or time since the first submit.
class SiteClock {
  constructor(facts) {
    Object.assign(this, facts);
    this.dated = facts.epoch !== null;
  }

  seconds(tick) { return tick * this.unit; }

  unix(tick) { return this.epoch + this.start + tick * this.unit; }

  ahead(unix) { // what the site's clock is ahead of UTC, in s
    let found = this.offsets.length ? this.offsets[0][1] : 0;
    for (const [from, offset] of this.offsets) if (from <= unix) found = offset;
    return found;
  }

  local(tick) { // a Date whose UTC fields are the site's
    const unix = this.unix(tick);
    return new Date(1000 * (unix + this.ahead(unix)));
  }

  // "3 May 2001, 14:05", or "12 d 3 h" since the first submit
  text(tick, exact = false) {
    if (!this.dated) return elapsed(this.seconds(tick));
    const at = this.local(tick);
    const second = exact && at.getUTCSeconds() ? `:${two(at.getUTCSeconds())}` : "";
    return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()}, ` +
      `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${second}`;
  }

  get name() {
    return this.dated ? `Time in ${this.zone}` : "Time since the first submit";
  }

  period() {
    if (!this.dated) return duration((this.end - this.start));
    const day = (tick) => this.text(tick).split(",")[0];
    const [from, to] = [day(0), day(this.ticks)];
    return from === to ? from : `${from} to ${to}`;
  }
}

// 8 d 18:05:10 since the first submit
function elapsed(seconds) {
  if (seconds < 0) return `−${elapsed(-seconds)}`;
  const whole = Math.floor(seconds + 1e-6), days = Math.floor(whole / 86400);
  const clock = [Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60].map(two).join(":");
  return days ? `${plain(days)} d ${clock}` : clock;
}

function two(number) { return String(number).padStart(2, "0"); }
