import type { Finding, Question } from './frontends/cli/command.ts';
import type { SandboxWish } from './protocol/config.ts';
import { errorText } from './protocol/errors.ts';
import { openSandbox, tryToEscape } from './tools/index.ts';

/** Where commands run by this configuration; where they are held, what became of every way out that was tried just now. */
export async function sandbox({ env }: Question, wish: SandboxWish): Promise<Finding[]> {
  const finding = (is: Finding['is'], text: string): Finding => ({ what: 'sandbox', is, text });
  const hold = openSandbox({ env, hidden: [] }).hold(wish);
  if (!hold.held) {
    const free = 'commands run as your user, without a sandbox. See docs/security.md';
    if (hold.chosen) return [finding('note', `${hold.why}: ${free}`)];
    return [
      hold.refused ? finding('wrong', `no command is run: ${hold.why}`) : finding('warning', `${hold.why}: ${free}`),
    ];
  }
  const found = [finding('ok', `commands are held${wish.network ? ', and may use the network' : ''}`)];
  for (const gap of hold.gaps) found.push(finding('note', gap));
  try {
    for await (const { way, held, said } of tryToEscape(env, wish)) {
      if (wish.network && way.network) continue;
      const text = `${way.name} (${way.tries}): ${held ? 'held' : `not held. It said: ${said}`}`;
      found.push({ what: 'escape', is: held ? 'ok' : 'wrong', text });
    }
  } catch (error) {
    found.push({ what: 'escape', is: 'wrong', text: errorText(error) });
  }
  return found;
}
