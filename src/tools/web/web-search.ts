import { UserError } from '../../protocol/errors.ts';
import { clip } from '../../protocol/recorded.ts';
import { deadline } from '../deadline.ts';
import { defineTool, type Tool } from '../define.ts';
import { webSearchHead } from './heads.ts';
import { type Found, searchEngine } from './search-engines.ts';
import type { WebSettings } from './settings.ts';

const TIME_MS = 20_000;
const SNIPPET = 600;

export type WebSearchOptions = { settings: () => WebSettings; env: NodeJS.ProcessEnv; ms?: number | undefined };

/** `web_search`: titles, addresses and excerpts from the search engine a person chose in `search` of agentd.json. */
export function webSearchTool({ settings, env, ms = TIME_MS }: WebSearchOptions): Tool {
  return defineTool({
    ...webSearchHead(settings),
    async run({ query, count = 8 }, context) {
      const engine = searchEngine(settings().search, env);
      const limit = deadline(context.signal, ms);
      try {
        const { results, note } = await engine({ query, count, signal: limit.signal });
        return { ok: true, text: inWords(query, results.slice(0, count), note) };
      } catch (error) {
        if (limit.passed()) throw new UserError(`The search engine did not answer within ${ms / 1000} s.`);
        throw error;
      } finally {
        limit.clear();
      }
    },
  });
}

function inWords(query: string, results: Found[], note: string): string {
  const list = results.map(({ title, url, excerpt, date }, at) =>
    [`${at + 1}. ${line(title, 200) || '(no title)'}${date ? ` (${line(date, 40)})` : ''}`, url, line(excerpt, SNIPPET)]
      .filter((part) => part !== '')
      .join('\n   '),
  );
  if (list.length === 0) list.push(`No results for \`${query}\`.`);
  return [...list, note].filter((part) => part !== '').join('\n');
}

/** On one line, without the marks some engines put around what matched. */
function line(text: string, max: number): string {
  return clip(
    text
      .replace(/<\/?(?:strong|b|em|mark)>/g, '')
      .replace(/\s+/g, ' ')
      .trim(),
    max,
  );
}
