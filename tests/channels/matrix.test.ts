import { openMatrix } from '../../src/frontends/channels/matrix.ts';
import { startFakeMatrix } from './fake-matrix.ts';
import { promises } from './promises.ts';

promises('matrix', async () => {
  const matrix = await startFakeMatrix();
  return {
    settings: { type: 'matrix', token_env: 'T', server: matrix.url },
    open: () => openMatrix({ token: 'syt', server: matrix.url }),
    account: (person) => `@${person}:here`,
    conversation: (person) => `!${person}:here`,
    write(person, text, file) {
      if (!file) return void matrix.say(person, { body: text });
      matrix.media.set(file.name, Buffer.from(file.content));
      const info = { size: file.bytes ?? file.content.length };
      const url = `mxc://here/${file.name}`;
      matrix.say(person, { msgtype: 'm.file', body: text || file.name, filename: file.name, url, info });
    },
    texts: matrix.texts,
    files: matrix.files,
    setDown(isDown) {
      matrix.state.down = isDown;
    },
  };
});
