import { z } from 'zod';
import type { ToolResult } from '../../engine/ports.ts';
import type { McpServer } from '../../protocol/mcp.ts';
import { clip } from '../../protocol/recorded.ts';
import { readArgs } from '../args.ts';
import type { Tool } from '../define.ts';
import { keysOf, parametersOf } from './parameters.ts';
import { resultOf } from './result.ts';
import type { Server } from './server.ts';
import { CallFault, type Came, type Listed } from './spoken.ts';

/** Code points of a description; servers write theirs for windows of all sizes. */
const LONGEST_DESCRIPTION = 2000;

/** A server's tool as one of ours, or why it cannot be offered. */
export function toolOf(listed: Listed, name: string, { server, settings, of }: Owner): Tool | string {
  const parameters = parametersOf(listed.inputSchema);
  if (!parameters) return 'its arguments are not an object';
  const args = argumentsOf(parameters);
  const description = clip(plain(listed.description ?? ''), LONGEST_DESCRIPTION);
  return {
    spec: { name, description: description || `The tool ${plain(listed.name)} of ${of}.`, parameters },
    replay: isSafe(listed, settings) ? 'safe' : 'never',
    tell(text) {
      readArgs(name, args, text);
      return {
        tool: name,
        text,
        kind: 'text',
        shows: `${name} ${text}`,
        always: name,
        touches: ['outside'],
        unheld: server.unheld,
      };
    },
    async call(text, context) {
      const values = readArgs(name, args, text);
      let came: Came;
      try {
        came = await server.call(listed.name, values, { work: async () => context.work, signal: context.signal });
      } catch (error) {
        if (error instanceof CallFault) return faultInWords(error, of);
        throw error;
      }
      return resultOf(came, name, context.work);
    },
  };
}

export type Owner = { server: Server; settings: McpServer; of: string };

/**
 * A hint is the server's word, and a wrong one would do a thing twice after a crash. It counts only where a person said that
 * this server may be believed.
 */
function isSafe({ annotations }: Listed, { trust_hints }: McpServer): boolean {
  return trust_hints === true && (annotations?.readOnlyHint === true || annotations?.idempotentHint === true);
}

/** Only that it is an object and has what it must have: the rest is checked by the server, which knows its schema in full. */
function argumentsOf(parameters: Record<string, unknown>): z.ZodObject {
  const { keys, required } = keysOf(parameters);
  const present = z.unknown().refine((value) => value !== undefined, 'it is missing');
  return z.looseObject(
    Object.fromEntries(keys.map((key) => [key, required.includes(key) ? present : z.unknown().optional()])),
  );
}

function faultInWords({ ran, message }: CallFault, of: string): ToolResult {
  const text = message.replace(/\.$/, '');
  switch (ran) {
    case 'refused':
      return { ok: false, text: `${of} refused the call: ${text}.` };
    case 'no':
      return { ok: false, text: `${of} was not reached, the call did not run: ${text}.` };
    case 'maybe':
      return {
        ok: false,
        text: `${of} did not answer: ${text}. The call may or may not have run; look before you repeat it.`,
      };
    default:
      return ran satisfies never;
  }
}

/** Without control characters, which no person wrote. */
const plain = (text: string) =>
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/g, '');
