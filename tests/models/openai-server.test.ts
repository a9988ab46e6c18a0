import { expect, test } from 'vitest';
import { modelServer } from '../support/temporary.ts';

test('a release after an arrival releases that request, even while its answer is being prepared', async () => {
  let made = (): void => undefined;
  const making = new Promise<void>((resolve) => {
    made = resolve;
  });
  const server = await modelServer([
    async () => {
      await making;
      return { hang: 'before', plain: true, text: 'let go' };
    },
  ]);
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] });
  const answer = fetch(`${server.url}/chat/completions`, { method: 'POST', body });
  await server.arrived(1);
  server.release();
  made();
  expect(await (await answer).text()).toContain('let go');
});
