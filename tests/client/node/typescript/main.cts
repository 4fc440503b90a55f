// The same package as CommonJS.
import attend = require("@attend/client");

export async function ask(server: string): Promise<readonly number[]> {
  const client = new attend.Client({ server });
  const { output } = await client.attend({ model: "demo", tokenIds: [1, 2] });
  client.close();
  return output.shape;
}
