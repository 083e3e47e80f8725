"""`recoup verify` and `registry`: a release that others can check, and find."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from recoup._files import write_whole
from recoup._shown import printable
from recoup.cli import options
from recoup.cli import output as out
from recoup.cli.tables import width_of, wrapped
from recoup.errors import ParameterError, TranscriptError

_NAMESPACE = "recoup"  # of signatures: one that was made for something else does not count
_SIGNERS = "Who may sign: a file of lines such as [b]me@example.org ssh-ed25519 AAAA...[/b], as of ssh-keygen."
_TRANSCRIPT = "A transcript."


def verify(
    transcript: Annotated[Path, typer.Argument(help=_TRANSCRIPT, metavar="TRANSCRIPT")],
    signature: Annotated[Path | None, typer.Option(help="Its signature, as `ssh-keygen -Y sign` writes it.")] = None,
    signers: Annotated[Path | None, typer.Option(help=_SIGNERS)] = None,
    signer: Annotated[str | None, typer.Option(help="Who is said to have signed it, as in that file.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check that a transcript is whole, that its prices follow from its noise, and who signed it, if anybody did.

    A checksum guards against accidents; only a signature guards against forgery. Example:

        recoup verify transcript.json --signature transcript.json.sig --signers allowed_signers --signer me@example.org
    """
    from recoup.transcript.transcript import Transcript

    if not (signature is None) == (signers is None) == (signer is None):
        raise ParameterError("give --signature, --signers and --signer together, or none of them.")
    released = Transcript.load(transcript)
    if signature is not None and signers is not None and signer is not None:
        _check_signature(transcript, signature, signers, signer)
    out.say(out.privacy_sentence(released.privacy))
    if as_json:
        out.print_json(transcript=str(transcript), checksum=released.checksum, signer=signer, privacy=released.privacy)
    else:
        by = "Not signed, or its signature was not given" if signer is None else f"Signed by {signer}"
        said = f"{printable(f'{transcript} is whole. {by}.')}\nChecksum: {released.checksum}"
        typer.echo(wrapped(said, width_of(sys.stdout)))


def _check_signature(transcript: Path, signature: Path, signers: Path, signer: str) -> None:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise ParameterError("signatures are checked by ssh-keygen, which is not installed: it comes with OpenSSH.")
    # Not "-...": a name must not become an option.
    files = [str(path.resolve()) for path in (signers, signature)]
    words = [program, "-Y", "verify", "-f", files[0], "-I", f"{signer}", "-n", _NAMESPACE, "-s", files[1]]
    if signer.startswith("-"):
        raise ParameterError(f"--signer {signer!r:.60} is no name.")
    with transcript.open("rb") as content:
        checked = subprocess.run(words, stdin=content, capture_output=True, check=False)
    if checked.returncode != 0:
        raise TranscriptError(f"{transcript} was not signed by {signer!r:.200}, or was changed since: do not trust it.")


def registry(
    transcript: Annotated[Path, typer.Argument(help=_TRANSCRIPT, metavar="TRANSCRIPT")],
    output: Annotated[Path, options.output(help="The entry to write, .yaml or .json.")] = Path("entry.yaml"),
    name: Annotated[str, typer.Option(help="Of what is published.")] = "TODO",
    curator: Annotated[str, typer.Option(help="Who publishes it.")] = "TODO",
    curator_type: Annotated[str, typer.Option(help="Government, Industry or Nonprofit.")] = "TODO",
    description: Annotated[str | None, typer.Option(help="Of what is published.", show_default="by its kind")] = None,
    use: Annotated[str, typer.Option(help="What it is meant for.")] = "TODO",
    region: Annotated[str, typer.Option(help="That it describes, or whose laws apply.")] = "TODO",
    sector: Annotated[str | None, typer.Option(help="Such as Healthcare.")] = None,
    date: Annotated[str, typer.Option(help="Of publication, YYYY-MM-DD.")] = "TODO",
    author: Annotated[str, typer.Option(help="Of the entry.")] = "TODO",
    as_json: options.AsJson = False,
) -> None:
    """Write an entry for the registry of differentially private deployments, as far as a transcript tells.

    What only the curator knows is an option, and TODO without it. Example:

        recoup registry transcript.json --name "Ages and incomes" -o ages.yaml
    """
    from recoup.deployment import as_yaml, deployment_entry, missing
    from recoup.transcript.transcript import Transcript

    if output.suffix.lower() not in (".yaml", ".yml", ".json"):
        raise ParameterError(f"{str(output)!r}: name the entry with -o, ending in .yaml or .json.")
    options.writable_folder(output.parent)
    options.free_output(output, transcript)
    entry = deployment_entry(
        Transcript.load(transcript),
        name=name,
        curator=curator,
        curator_type=curator_type,
        description=description,
        use=use,
        region=region,
        sector=sector,
        date=date,
        author=author,
    )
    write_whole(output, out.json_text(entry) if output.suffix.lower() == ".json" else as_yaml(entry) + "\n")
    out.say(f"Wrote {output}.")
    if left := missing(entry):
        out.say(f"To be filled in, where it says TODO: {', '.join(left)}.")
    if as_json:
        out.print_json(entry=entry, missing=left, files=[str(output)])
