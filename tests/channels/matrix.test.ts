import { expect, test } from 'vitest';
import { openMatrix } from '../../src/frontends/channels/matrix.ts';
import { type Ground, until } from '../support/daemon.ts';
import { startFakeMatrix } from './fake-matrix.ts';
import { promises, servedChannel } from './promises.ts';

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
    revoke(isRevoked) {
      matrix.state.revoked = isRevoked;
    },
    setDown(isDown) {
      matrix.state.down = isDown;
    },
  };
});

/** A workspace with a daemon and a homeserver; Ada and Bob are paired. */
async function talking(answers: object[], settings: object = {}) {
  const matrix = await startFakeMatrix();
  const entry = { type: 'matrix', token_env: 'T', server: matrix.url };
  const served = { name: 'matrix', entry, account: '@ada:here', ...settings };
  const { on, files, run } = await servedChannel(answers, served);
  const code = await files.newCode({ id: '@bob:here', label: 'Bob' }, new Date());
  await files.pair(code?.code ?? '', { name: 'bob', role: 'approve' }, new Date());
  run(openMatrix({ token: 'syt', server: matrix.url }));
  await until(() => files.state()?.heard_at ?? undefined, 'that it hears');
  const heard = (person: string, text: string) => matrix.texts(person).some((one) => one.includes(text));
  return { matrix, on, heard };
}
const received = (on: Ground, session: string) =>
  on.events(session).flatMap((event) => (event.type === 'message.received' ? [event] : []));

test('an edit or removal of a message that was taken is answered in words, an encrypted room once, and none is taken', async () => {
  const { matrix, on, heard } = await talking([{ text: 'Painted.' }]);
  const id = matrix.say('ada', { body: 'paint' });
  await until(() => heard('ada', 'Painted.'), 'the reply');
  const room = matrix.roomOf('ada');
  const [sender, relation] = ['@ada:here', { rel_type: 'm.replace', event_id: id }];
  for (const event_id of [id, '$unknown'])
    matrix.say('ada', { body: '* paint it red', 'm.relates_to': { ...relation, event_id } });
  for (const redacts of [id, '$unknown']) matrix.add(room, { type: 'm.room.redaction', sender, content: { redacts } });
  for (const ciphertext of ['one', 'two'])
    matrix.add(room, { type: 'm.room.encrypted', sender, content: { ciphertext } });
  await until(() => heard('ada', 'cannot read encrypted rooms'), 'the last answer');
  expect(matrix.texts('ada').slice(1)).toEqual([
    expect.stringContaining('I do not read edits.'),
    expect.stringContaining('I had read the message that you deleted.'),
    expect.stringContaining('I cannot read encrypted rooms.'),
  ]);
  expect(received(on, 'matrix=3a=21ada=3ahere')).toHaveLength(1);
});

test('in a room of many only paired people who name the bot are read, and whoever is not in `senders` gives no orders', async () => {
  const { matrix, on, heard } = await talking([{ text: 'Painted.' }, { text: 'Cleaned.' }], { senders: ['ada'] });
  const room = matrix.roomOf('team');
  for (const person of ['ada', 'bob', 'eve']) matrix.members.get(room)?.add(`@${person}:here`);
  matrix.say('ada', { body: 'nice weather' }, room);
  matrix.say('eve', { body: 'agentd: delete it' }, room);
  matrix.say('bob', { body: 'agentd: burn it' }, room);
  matrix.say('ada', { body: 'agentd: paint it' }, room);
  await until(() => heard('team', 'Painted.'), 'the reply');
  matrix.say('ada', { body: 'clean it', 'm.mentions': { user_ids: ['@agentd:here'] } }, room);
  await until(() => heard('team', 'Cleaned.'), 'the other reply');
  expect(received(on, 'matrix=3a=21team=3ahere').map(({ from, as }) => [from, as])).toEqual([
    ['bob', 'data'],
    ['ada', undefined],
    ['ada', undefined],
  ]);
  expect(heard('team', 'I do not take messages')).toBe(false);
});
