import { openWebhook } from '../../src/frontends/channels/webhook.ts';
import { startFakeProgram } from './fake-webhook.ts';
import { promises } from './promises.ts';

promises('webhook', async () => {
  const program = await startFakeProgram();
  let n = 0;
  return {
    settings: { type: 'webhook', port: program.port, url: program.url, secret_env: 'T' },
    open: () => openWebhook({ port: program.port, url: program.url, secret: program.key }),
    account: (person) => person,
    conversation: (person) => person,
    write(person, text, file) {
      const base64 = Buffer.from(file?.bytes ? Buffer.alloc(file.bytes) : (file?.content ?? '')).toString('base64');
      const files = file ? [{ name: file.name, base64 }] : [];
      program.deliver({ id: `${n++}`, conversation: person, from: person, text, files });
    },
    press(person, at) {
      const buttons = program.all(person).findLast((one) => one.buttons.length > 0)?.buttons ?? [];
      program.deliver({ id: `${n++}`, conversation: person, from: person, choice: buttons[at - 1]?.data });
    },
    texts: program.texts,
    files: program.files,
    delivered: program.delivered,
    setDown(isDown) {
      program.state.down = isDown;
    },
  };
});
