/** A word that means just itself wherever it stands: yargs reads "true" and "false" behind a flag as its value, and takes quotation marks off. */
export function isPlain(word: string | undefined): word is string {
  return word !== undefined && word.trim() !== '' && !/^(?:[-'"]|true$|false$)/.test(word);
}
