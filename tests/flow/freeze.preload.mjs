/** Where JSON with these words is read, the event loop stands still for ever. Where they are in a command: an error nobody catches. */
const { parse } = JSON;
JSON.parse = (text, reviver) => {
  // A loop would do the same and take the processor from what runs beside it.
  if (String(text).includes('STAND-STILL')) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  if (/^\{"command":.*THROW-LATER/.test(String(text)))
    setTimeout(() => {
      throw new Error('THROW-LATER was read');
    }, 200);
  return parse(text, reviver);
};
