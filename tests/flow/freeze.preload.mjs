/** Where JSON with these words is read: work that takes for ever. Where they are in a command: an error nobody catches. */
const { parse } = JSON;
JSON.parse = (text, reviver) => {
  while (String(text).includes('STAND-STILL'));
  if (/^\{"command":.*THROW-LATER/.test(String(text)))
    setTimeout(() => {
      throw new Error('THROW-LATER was read');
    }, 200);
  return parse(text, reviver);
};
