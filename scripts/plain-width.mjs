/**
 * Replaces `string-width`, whose emoji patterns take longer to compile than a short command runs. Help is plain text.
 */
export default function plainWidth(text) {
  return [...text].length;
}
