// Elements, whose texts are always texts: nothing here reads HTML.

const SVG = "http://www.w3.org/2000/svg";

function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

function section(id, title, ...children) {
  return el("section", { id, "aria-labelledby": `${id}-title` },
    el("h2", { id: `${id}-title` }, title), ...children);
}

// a row of buttons of which one is chosen
function choice(label, options, chosen, onchange) {
  const buttons = options.map(([value, text]) => el("button", {
    type: "button", "aria-pressed": String(value === chosen),
    onclick: () => {
      for (const [n, button] of buttons.entries()) {
        button.setAttribute("aria-pressed", String(options[n][0] === value));
      }
      onchange(value);
    },
  }, text));
  return el("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

function select(label, options, chosen, onchange) {
  const box = el("select", { "aria-label": label, onchange: () => onchange(box.value) },
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
  return el("label", { class: "field" }, el("span", {}, label), box);
}

function copyButton(text, what) {
  const button = el("button", {
    type: "button", class: "small", "aria-label": `Copy ${what}`,
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(text());
      } catch {
        const area = el("textarea", {}); // where files may not write to the clipboard
        area.value = text();
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    },
  }, "Copy");
  return button;
}

// The theme: the system's, until the reader chooses one.
const theme = { colours: {}, listeners: [] };

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const named = (name) => style.getPropertyValue(`--${name}`).trim();
  for (const name of ["ink", "soft", "faint", "line", "panel", "page", "accent", "bar-line", "pale",
    "green", "grey", "red", "battery", "export", "cut", "mark"]) theme.colours[name] = named(name);
  theme.runs = [0, 1, 2, 3, 4, 5].map((n) => named(`run-${n}`));
  theme.kinds = [0, 1, 2, 3, 4, 5, 6].map((n) => named(`kind-${n}`));
  theme.steps = [0, 1, 2, 3, 4, 5, 6].map((n) => named(`step-${n}`));
  theme.dark = named("is-dark") === "1";
  for (const listener of theme.listeners) listener();
}

function themeSwitch() {
  const root = document.documentElement;
  const set = (value) => {
    if (value === "system") delete root.dataset.theme;
    else root.dataset.theme = value;
    readTheme();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readTheme);
  matchMedia("print").addEventListener("change", readTheme);
  addEventListener("beforeprint", readTheme);
  addEventListener("afterprint", readTheme);
  return choice("Colours", [["system", "System"], ["light", "Light"], ["dark", "Dark"]], "system", set);
}

function rgb(colour) { // "#rrggbb" → [r, g, b]
  const number = parseInt(colour.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}
