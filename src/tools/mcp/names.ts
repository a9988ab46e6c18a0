import { createHash } from 'node:crypto';

/** What an endpoint takes as the name of a tool: `^[a-zA-Z0-9_-]{1,64}$`. */
const LONGEST = 64;
const MARK_CHARS = 12;
const PLAIN_SERVER = /^[a-zA-Z0-9-]+(?:_[a-zA-Z0-9-]+)*$/;
const PLAIN_TOOL = /^[a-zA-Z0-9_-]+$/;
const MARKED = new RegExp(`_[0-9a-f]{${MARK_CHARS}}$`);

/**
 * The name the model knows a server's tool by: `mcp__<server>__<tool>`. Two tools never share one: where a part has other
 * characters, is too long or could be read in two ways, the name ends in a mark made of both. No plain name ends like a mark.
 */
export function toolName(server: string, tool: string): string {
  const plain = `mcp__${server}__${tool}`;
  const isPlain = PLAIN_SERVER.test(server) && PLAIN_TOOL.test(tool) && plain.length <= LONGEST && !MARKED.test(plain);
  if (isPlain) return plain;
  const mark = createHash('sha256')
    .update(JSON.stringify([server, tool]))
    .digest('hex')
    .slice(0, MARK_CHARS);
  const readable = `mcp__${safe(server, 20)}__${safe(tool, LONGEST)}`;
  return `${readable.slice(0, LONGEST - MARK_CHARS - 1)}_${mark}`;
}

/** Letters, digits, `_` and `-` only, at most `max` of them. */
export function safe(text: string, max: number): string {
  return text.replace(/[^a-zA-Z0-9_-]+/g, '_').slice(0, max) || '_';
}
