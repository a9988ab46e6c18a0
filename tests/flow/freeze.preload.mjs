/** Stands still for ever where this word is read as JSON: a stand-in for work that takes too long. */
const { parse } = JSON;
JSON.parse = (text, reviver) => {
  while (String(text).includes('STAND-STILL'));
  return parse(text, reviver);
};
