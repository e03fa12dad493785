// Packed columns: base64 → gzip → lowest bytes first, then differences → numbers; see packed.py.

async function unpacked(element, columns) {
  const text = element.textContent;
  element.remove(); // the text would stay in memory twice
  const packed = bytesOf(text);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const block = new Uint8Array(await new Response(stream).arrayBuffer());
  const found = {};
  let at = 0;
  for (const { name, kind, count, bytes } of columns) {
    const part = block.subarray(at, at + bytes);
    at += bytes;
    if (kind === "numbers") found[name] = numbersOf(part, count);
    else if (kind === "texts") found[name] = JSON.parse(new TextDecoder().decode(part));
    else found[name] = part;
  }
  return found;
}

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let n = 0; n < letters.length; n++) bytes[n] = letters.charCodeAt(n);
  return bytes;
}

function numbersOf(part, count) {
  const numbers = new Uint32Array(count);
  let sum = 0;
  for (let n = 0; n < count; n++) {
    const step = part[n] | (part[n + count] << 8) | (part[n + 2 * count] << 16) | (part[n + 3 * count] << 24);
    sum = (sum + step) >>> 0;
    numbers[n] = sum;
  }
  return numbers;
}
