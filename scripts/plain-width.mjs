/** In place of `string-width`, whose patterns for emoji take longer to compile than a short command runs: help is plain text. */
export default function plainWidth(text) {
  return [...text].length;
}
